package logs

import "time"

const (
	// appendEvery is how often a run that goes on is appended to, at most and in the mean: two appends may be closer together.
	appendEvery = 20 * time.Millisecond
	// appendSlack is how much earlier one may be: a timer for that costs more than it is worth, and the mean stays.
	appendSlack = 2 * time.Millisecond
)

// pace says when a run may be appended to. Only what readers wait for counts: to write once more what is in pages is no reason to have
// them wait.
type pace struct {
	next time.Time // when there may be another append
}

func (p *pace) ready(now time.Time) bool { return !now.Before(p.next.Add(-appendSlack)) }

// spend counts an append, where something in it is fresh. One that is late by less than a pause does not make those behind it late: who
// has a token each 20 ms would else go on with the longest delay that there ever was.
func (p *pace) spend(fresh bool, now time.Time) {
	if !fresh {
		return
	}
	if p.next = p.next.Add(appendEvery); p.next.Before(now) {
		p.next = now
	}
}
