// Linearizable reads a history as lines of JSON and says, a line each, whether the log and every table is
// linearizable. Porcupine decides; model.go has what is asked.
//
//	linearizable -timeout 30s < history.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// mostExplained is how long the order may be looked for that says best why there is none.
const mostExplained = 2 * time.Second

// values of days, by table and day; nil is a day without rows.
type values map[string]map[string]*string

// operation is a line of the history, as history.py writes it.
type operation struct {
	Process     string
	Kind        string
	Begin       int64
	End         *int64
	Outcome     string
	Writes      values
	Replaced    values
	Reads       values
	Publication *string
	Pinned      bool
	Position    *int64
}

// mismatch is an operation that cannot come next, and why.
type mismatch struct {
	Line  int      `json:"line"`
	Key   []string `json:"key,omitempty"`
	Saw   *string  `json:"saw"`
	There *string  `json:"there"`
	Head  int64    `json:"head"`
}

// verdict is that on one object: the log, or a table.
type verdict struct {
	Object     string     `json:"object"`
	Decided    string     `json:"decided"`
	Operations int        `json:"operations"`
	Placed     int        `json:"placed"`
	Stuck      []mismatch `json:"stuck"`
}

func main() {
	timeout := flag.Duration("timeout", 30*time.Second, "for each object")
	flag.Parse()
	history, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	for _, object := range objects(history) {
		if err := out.Encode(judge(object, *timeout)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

func read(file *os.File) ([]operation, error) {
	var history []operation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(history), err)
		}
		history = append(history, one)
	}
	return history, lines.Err()
}

// judge asks porcupine; of what is not linearizable, the longest order that it found says where it ends.
func judge(object object, timeout time.Duration) verdict {
	model := object.model()
	decided := porcupine.CheckOperationsTimeout(model, object.history, timeout)
	found := verdict{Object: object.name, Decided: string(decided), Operations: len(object.history), Stuck: []mismatch{}}
	if decided != porcupine.Illegal {
		return found
	}
	explained, info := porcupine.CheckOperationsVerbose(model, object.inAnyOrder(), mostExplained)
	if explained == porcupine.Illegal {
		object.history = object.inAnyOrder()
	} else {
		_, info = porcupine.CheckOperationsVerbose(model, object.history, timeout)
	}
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	found.Placed = len(longest)
	found.Stuck = object.stuck(longest)
	return found
}

// stuck lists the operations that could come next by their times, and what each finds instead of what it saw.
func (o object) stuck(order []int) []mismatch {
	now, placed := o.empty(), map[int]bool{}
	for _, id := range order {
		_, now = now.after(o.history[id].Input.(step))
		placed[id] = true
	}
	first := int64(forever)
	for id, each := range o.history {
		if !placed[id] && each.Return < first {
			first = each.Return
		}
	}
	found := []mismatch{}
	for id, each := range o.history {
		if placed[id] || each.Call > first {
			continue
		}
		if why, differs := o.why(now, each.Input.(step)); differs {
			found = append(found, why)
		}
	}
	sort.Slice(found, func(a, b int) bool { return found[a].Line < found[b].Line })
	return found
}
