"""What approving a campaign would change, or how two states of the lakehouse differ. No table is written.

``find_difference`` and ``compare_states`` make a ``Difference`` of ``TableCompared``; ``difference_answer`` shows it.
"""
