package web

import (
	"testing"

	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

const askChat = `{"workflow":"chat","input":{"question":"q"}}`

// While the memory is nearly used up, turns wait that come by other doors, and those of this one are refused.
func TestTurnsWaitWhileThereIsLittleMemory(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	press(&a.s.shed.memory, true)
	turnedAway(t, a.say("hello", ""), 503, wire.CodeOverloaded, "memory")
	k, err := a.s.o.Turns.Submit(t.Context(), &turn.Envelope{SessionID: "s", Channel: "chat", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if now := a.s.o.Turns.Lanes(); now.Running != 0 || now.Waiting != 1 {
		t.Errorf("%+v", now)
	}
	press(&a.s.shed.memory, false)
	if _, err := k.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
