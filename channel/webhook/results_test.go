package webhook

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store/db"
)

// CH-182, CL-09: a message that is sent again to another replica is answered like the first time there, and runs nothing.
func TestAResultIsFoundAtEveryReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		journal, kept := channel.NewJournal(nil), openResults(t)
		settings := func(s *Settings, k *channel.Kernel) {
			s.Ack, s.Callback, s.Results, s.Shared, k.Journal = AckResult, "", kept, true, journal
		}
		a, b := newRig(t, settings), newRig(t, settings)
		first := a.post("msg-1", hello("x"))
		again := b.post("msg-1", hello("x"))
		if !again.Duplicate || first.Duplicate || again.status != http.StatusOK || fmt.Sprint(again.Replies) != fmt.Sprint(first.Replies) || len(first.Replies) != 1 {
			t.Errorf("first %+v, at the other replica %+v", first, again)
		}
		// While it is made, whoever asks waits for it there, too.
		goOn := make(chan struct{})
		a.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			<-goOn
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "late"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		go a.postWith(ctx, "msg-2", hello("x"), nil)
		synctest.Wait()
		cancel() // its sender has lost the connection
		time.AfterFunc(10*time.Second, func() { close(goOn) })
		began := time.Now()
		again = b.post("msg-2", hello("x"))
		if took := time.Since(began); len(again.Replies) != 1 || again.Replies[0].Text != "late" || took > 11*time.Second {
			t.Errorf("after %v %+v", took, again)
		}
		// What takes longer than a minute is told later.
		goOn = make(chan struct{})
		ctx, cancel = context.WithCancel(t.Context())
		go a.postWith(ctx, "msg-3", hello("x"), nil)
		synctest.Wait()
		cancel()
		began = time.Now()
		if again = b.post("msg-3", hello("x")); again.status != http.StatusAccepted || time.Since(began) != resultWait {
			t.Errorf("after %v %+v", time.Since(began), again)
		}
		close(goOn)
		synctest.Wait()
	})
}

// openResults opens a table of answers in memory.
func openResults(t *testing.T) Results {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.Results(ResultLife)
}
