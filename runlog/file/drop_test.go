package file

import (
	"testing"
	"testing/synctest"
	"time"
)

// A run may be forgotten while an old file is rewritten for those that go on.
func TestARunThatIsForgottenWhileAFileIsRewrittenHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := newMemoryFolder()
		j := newByHand(folder)
		runs := []*testRun{goingRun(j.Log, 1), goingRun(j.Log, 2), goingRun(j.Log, 3)}
		for _, r := range runs {
			r.say("a", "still here")
		}
		j.pass(true)
		time.Sleep(keepSegment + time.Second)
		j.pass(false) // a new file is begun, and the old one is to be rewritten
		runs[0].finish()
		runs[0].entry.Drop()
		if err := j.tidy(time.Now()); err != nil {
			t.Fatal(err)
		}
		j.pass(true)
		found := read(t, folder)
		for _, r := range runs[1:] {
			if found[r.id] == nil || documentOf(found[r.id].Tube) != `{"a":"still here"}{}` {
				t.Errorf("%s is lost", r.id)
			}
		}
		if found[runs[0].id] != nil {
			t.Error("what was forgotten is there")
		}
	})
}
