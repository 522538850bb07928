package main

import (
	"hash/fnv"
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// The log is one object: a map of all days of all tables, and the version of its head. A table is one object: a map of
// its days. What died or was refused may have happened; in a table it may also have been put back, as a second write.
//
// What says its version of the log comes in the order of versions. Each such step knows how many come before it: of a
// long history no other order is tried, and one that contradicts the times is still found.

const forever = math.MaxInt64

type act int

const (
	writes   act = iota // it happened
	mayWrite            // it happened, or not
	putsBack            // and if it did, this undoes it; if not, it never does afterwards
	reads
	comesIn // a write past the log, which pinned readers see with a later publication
)

// cell is a day with what is written or seen there; before is what a write replaced, where that is known.
type cell struct {
	key, value, before int
	known              bool
}

// step is the input of porcupine: an operation, or the part of it that this object sees.
type step struct {
	act      act
	line     int
	cells    []cell
	attempt  int   // of mayWrite and putsBack: which
	position int64 // in the log; 0 is not known
	below    int   // of those whose position is known: how many have to come before
}

const (
	untouched byte = iota
	standing       // it was written, and not put back
	settled        // it was put back, or never comes
)

// state is never changed, only replaced.
type state struct {
	values   []int
	attempts []byte
	head     int64
	placed   int // of those whose position is known
}

// after says whether a step fits here, and what is there afterwards.
func (s state) after(step step) (bool, state) {
	if step.position != 0 {
		if s.placed < step.below || step.position < s.head || step.act == writes && step.position == s.head {
			return false, s
		}
		s.placed++
		if step.act != comesIn { // it comes with the entry of that version, just before it
			s.head = step.position
		}
	}
	switch step.act {
	case reads:
		return s.holds(step.cells), s
	case writes:
		return s.canReplace(step.cells), s.with(step.cells)
	case comesIn:
		return true, s.with(step.cells)
	case mayWrite:
		if s.attempts[step.attempt] == settled || !s.canReplace(step.cells) {
			return true, s.marked(step.attempt, settled)
		}
		return true, s.with(step.cells).marked(step.attempt, standing)
	default:
		if s.attempts[step.attempt] == standing {
			s = s.without(step.cells)
		}
		return true, s.marked(step.attempt, settled)
	}
}

func (s state) holds(cells []cell) bool {
	for _, each := range cells {
		if s.values[each.key] != each.value {
			return false
		}
	}
	return true
}

func (s state) canReplace(cells []cell) bool {
	for _, each := range cells {
		if each.known && s.values[each.key] != each.before {
			return false
		}
	}
	return true
}

func (s state) with(cells []cell) state {
	s.values = append([]int(nil), s.values...)
	for _, each := range cells {
		s.values[each.key] = each.value
	}
	return s
}

// without puts the days back that nobody else has changed since.
func (s state) without(cells []cell) state {
	s.values = append([]int(nil), s.values...)
	for _, each := range cells {
		if each.known && s.values[each.key] == each.value {
			s.values[each.key] = each.before
		}
	}
	return s
}

func (s state) marked(attempt int, how byte) state {
	s.attempts = append([]byte(nil), s.attempts...)
	s.attempts[attempt] = how
	return s
}

func (s state) equals(other state) bool {
	for key, value := range s.values {
		if other.values[key] != value {
			return false
		}
	}
	return s.head == other.head && s.placed == other.placed && string(s.attempts) == string(other.attempts)
}

func (s state) hash() uint64 {
	hash := fnv.New64a()
	for _, value := range s.values {
		hash.Write([]byte{byte(value), byte(value >> 8), byte(value >> 16)})
	}
	hash.Write(s.attempts)
	return hash.Sum64() ^ uint64(s.head)
}

// object is what is linearizable or not: its name, its days and values as numbers, and what happened to it.
type object struct {
	name     string
	keys     [][2]string
	numbers  map[[2]string]int
	names    []map[int]*string
	ids      []map[string]int
	attempts int
	history  []porcupine.Operation
}

func newObject(name string) *object {
	return &object{name: name, numbers: map[[2]string]int{}}
}

func (o *object) key(table, day string) int {
	at := [2]string{table, day}
	if number, known := o.numbers[at]; known {
		return number
	}
	o.numbers[at] = len(o.keys)
	o.keys = append(o.keys, at)
	o.names = append(o.names, map[int]*string{})
	o.ids = append(o.ids, map[string]int{})
	return len(o.keys) - 1
}

// value is 0 for a day without rows.
func (o *object) value(key int, name *string) int {
	if name == nil {
		return 0
	}
	if id, known := o.ids[key][*name]; known {
		return id
	}
	id := len(o.ids[key]) + 1
	o.ids[key][*name], o.names[key][id] = id, name
	return id
}

// cells are in the order of tables and days, whatever order the history names them in.
func (o *object) cells(told, replaced values, only string) []cell {
	var at [][2]string
	for table, days := range told {
		for day := range days {
			if only == "" || table == only {
				at = append(at, [2]string{table, day})
			}
		}
	}
	sort.Slice(at, func(a, b int) bool { return at[a][0]+"\x00"+at[a][1] < at[b][0]+"\x00"+at[b][1] })
	cells := make([]cell, len(at))
	for place, each := range at {
		key := o.key(each[0], each[1])
		before, known := replaced[each[0]][each[1]]
		cells[place] = cell{key, o.value(key, told[each[0]][each[1]]), o.value(key, before), known}
	}
	return cells
}

func (o *object) add(step step, begin, end int64) {
	if len(step.cells) > 0 || step.position != 0 {
		o.history = append(o.history, porcupine.Operation{Input: step, Call: begin, Return: end})
	}
}

// objects are the log, and every table that somebody read by itself.
func objects(history []operation) []object {
	found := []object{log(history)}
	tables := map[string]bool{}
	for _, each := range history {
		if each.Kind == "read" && !each.Pinned {
			for table := range each.Reads {
				tables[table] = true
			}
		}
	}
	var names []string
	for table := range tables {
		names = append(names, table)
	}
	sort.Strings(names)
	for _, table := range names {
		found = append(found, oneTable(history, table))
	}
	return found
}

// log has each publication as a whole, and pinned reads. What was refused never came to be.
func log(history []operation) object {
	o := newObject("the log")
	seen := observed(history, func(one operation) bool {
		return one.Kind == "read" && one.Pinned || one.Publication != nil
	})
	for line, each := range history {
		switch {
		case each.Kind == "read":
			if each.Pinned && each.End != nil {
				o.add(step{act: reads, line: line, cells: o.cells(each.Reads, nil, ""), position: number(each.Position)}, each.Begin, *each.End)
			}
		case each.Outcome == "refused":
		case each.Publication == nil:
			o.add(step{act: comesIn, line: line, cells: o.cells(each.Writes, nil, ""), position: number(each.Position)}, each.Begin, forever)
		case each.Outcome == "ok":
			happened := step{act: writes, line: line, cells: o.cells(each.Writes, each.Replaced, ""), position: number(each.Position)}
			o.add(happened, each.Begin, *each.End)
		case seen.of(each.Writes, ""):
			o.add(step{act: mayWrite, line: line, cells: o.cells(each.Writes, each.Replaced, ""), attempt: o.attempt()}, each.Begin, forever)
		}
	}
	o.inOrder()
	return *o
}

// inOrder tells each step with a position how many come before it: at one version what comes in, in the order of lines,
// then the entry, then its readers, among themselves in any order.
func (o *object) inOrder() {
	var known []int
	for at, each := range o.history {
		if each.Input.(step).position != 0 {
			known = append(known, at)
		}
	}
	place := func(at int) (int64, int) {
		one := o.history[at].Input.(step)
		return one.position, map[act]int{comesIn: 0, writes: 1, reads: 2}[one.act]
	}
	sort.SliceStable(known, func(a, b int) bool {
		one, first := place(known[a])
		other, second := place(known[b])
		return one < other || one == other && first < second
	})
	below := 0
	for index, at := range known {
		position, kind := place(at)
		if index == 0 || o.history[known[index-1]].Input.(step).position != position || kind != 2 || o.history[known[index-1]].Input.(step).act != reads {
			below = index
		}
		one := o.history[at].Input.(step)
		one.below = below
		o.history[at].Input = one
	}
}

// inAnyOrder is the history without how many come before a step: its longest order ends where versions contradict.
func (o object) inAnyOrder() []porcupine.Operation {
	found := append([]porcupine.Operation(nil), o.history...)
	for at, each := range found {
		one := each.Input.(step)
		one.below = 0
		found[at].Input = one
	}
	return found
}

// oneTable has the part of each publication that is in it, and what readers of it saw who go by no log.
func oneTable(history []operation, table string) object {
	o := newObject(table)
	seen := observed(history, func(one operation) bool { return one.Kind == "publish" || !one.Pinned })
	for line, each := range history {
		end := int64(forever)
		if each.End != nil {
			end = *each.End
		}
		part := step{act: writes, line: line, cells: o.cells(each.Writes, each.Replaced, table)}
		switch {
		case each.Kind == "read":
			if !each.Pinned && each.End != nil {
				o.add(step{act: reads, line: line, cells: o.cells(each.Reads, nil, table)}, each.Begin, end)
			}
		case each.Outcome == "ok":
			o.add(part, each.Begin, end)
		case seen.of(each.Writes, table):
			part.act, part.attempt = mayWrite, o.attempt()
			o.add(part, each.Begin, end)
			part.act = putsBack
			o.add(part, each.Begin, end)
		}
	}
	return *o
}

func number(position *int64) int64 {
	if position == nil {
		return 0
	}
	return *position + 1
}

func (o *object) attempt() int {
	o.attempts++
	return o.attempts - 1
}

// sightings are the values that somebody read or replaced: what nobody ever saw need not be placed.
type sightings map[[3]string]bool

func observed(history []operation, counts func(operation) bool) sightings {
	seen := sightings{}
	for _, each := range history {
		if !counts(each) {
			continue
		}
		for _, told := range []values{each.Reads, each.Replaced} {
			for table, days := range told {
				for day, name := range days {
					if name != nil {
						seen[[3]string{table, day, *name}] = true
					}
				}
			}
		}
	}
	return seen
}

func (s sightings) of(told values, only string) bool {
	for table, days := range told {
		for day, name := range days {
			if (only == "" || table == only) && name != nil && s[[3]string{table, day, *name}] {
				return true
			}
		}
	}
	return false
}

func (o object) empty() state {
	return state{values: make([]int, len(o.keys)), attempts: make([]byte, o.attempts)}
}

func (o object) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return o.empty() },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			fits, after := before.(state).after(input.(step))
			return fits, after
		},
		Equal: func(one, other interface{}) bool { return one.(state).equals(other.(state)) },
		Hash:  func(one interface{}) uint64 { return one.(state).hash() },
	}
}

// why says what a step that does not fit would have to find.
func (o object) why(now state, step step) (mismatch, bool) {
	for _, each := range step.cells {
		saw, matters := each.value, step.act == reads
		if step.act == writes {
			saw, matters = each.before, each.known
		}
		if there := now.values[each.key]; matters && there != saw {
			key := o.keys[each.key]
			return mismatch{Line: step.line, Key: key[:], Saw: o.names[each.key][saw], There: o.names[each.key][there]}, true
		}
	}
	if fits, _ := now.after(step); !fits {
		return mismatch{Line: step.line, Head: now.head - 1}, true
	}
	return mismatch{}, false
}
