package main

import "slices"

// choice is an input to keep.
type choice struct {
	input int   // its index
	first block // the first of what it reaches and nothing before it does
}

// choose chooses at most so many inputs: each time the one that reaches most of what neither is reached already nor by those that were
// chosen; of several, that which comes first. Inputs that reach nothing more are not chosen.
func choose(before profile, inputs []profile, most int) (chosen []choice) {
	left := make([]profile, len(inputs)) // what each reaches beside what is reached
	for i, input := range inputs {
		left[i] = profile{}
		for b := range input {
			if !before[b] {
				left[i][b] = true
			}
		}
	}
	for len(chosen) < most {
		best := -1
		for i := range left {
			if len(left[i]) > 0 && (best < 0 || len(left[i]) > len(left[best])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		var reached []block
		for b := range left[best] {
			reached = append(reached, b)
		}
		for _, p := range left {
			for _, b := range reached {
				delete(p, b)
			}
		}
		chosen = append(chosen, choice{best, slices.MinFunc(reached, block.compare)})
	}
	return chosen
}
