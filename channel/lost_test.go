package channel

import "testing"

// DC-08: a crash is told to a conversation once: by the door, and not again with its next message, whichever of the two comes first.
func TestAnAnswerThatTheDoorHasCalledIncompleteIsNotLostAsWell(t *testing.T) {
	k := &Kernel{}
	lost := func(session string) bool {
		_, ok := k.state.lost.get(session)
		return ok
	}
	k.noteLost("s", "event 1")
	k.noteLost("other", "event 2")
	if !lost("s") {
		t.Error("a lost answer is not noted")
	}
	k.toldIncomplete("event 1")
	k.noteLost("s", "event 1")
	if lost("s") || !lost("other") {
		t.Errorf("noted: %v, and of another event %v", lost("s"), lost("other"))
	}
	k.noteLost("s", "") // of no event that is known
	if !lost("s") {
		t.Error("a lost answer to no event is not noted")
	}
}
