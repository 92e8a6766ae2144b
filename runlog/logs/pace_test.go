package logs

import (
	"testing"
	"time"
)

// CL-04, CL-12: who has a token each 20 ms has none of them wait, whatever else there is to write of the run, and however late some are.
func TestARunThatIsAsFastAsItMayBeDoesNotWait(t *testing.T) {
	begin := time.Now()
	p := &pace{}
	for n := range 1000 {
		at := begin.Add(time.Duration(n) * appendEvery)
		if n%50 == 7 {
			at = at.Add(appendEvery / 2) // late, once
		}
		if !p.ready(at) {
			t.Fatalf("token %d waits until %v, which is %v later", n, p.next.Sub(begin), p.next.Sub(at))
		}
		p.spend(true, at)
		if n%50 == 20 {
			p.spend(false, at.Add(time.Millisecond)) // what is in pages is written once more
		}
	}
}

// CL-04: a run that has more is appended to once in 20 ms.
func TestARunThatIsFasterWaits(t *testing.T) {
	begin := time.Now()
	p := &pace{}
	appends := 0
	for at := begin; at.Before(begin.Add(time.Second)); at = at.Add(time.Millisecond) {
		if p.ready(at) {
			appends++
			p.spend(true, at)
		}
	}
	if most := int(time.Second/appendEvery) + 2; appends > most || appends < most-5 {
		t.Errorf("%d appends in a second", appends)
	}
}
