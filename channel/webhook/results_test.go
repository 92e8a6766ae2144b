package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// sharedResults are shared by the replicas of a test.
type sharedResults struct {
	mu   sync.Mutex
	of   map[string][]byte
	whom map[string]string
	away bool
}

var errAway = errors.New("away")

func (s *sharedResults) Save(_ context.Context, message, session string, answer []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	if s.of == nil {
		s.of, s.whom = map[string][]byte{}, map[string]string{}
	}
	s.of[message], s.whom[message] = answer, session
	return nil
}

func (s *sharedResults) Load(_ context.Context, message string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	return s.of[message], nil
}

func (s *sharedResults) Erase(_ context.Context, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for message, of := range s.whom {
		if of == session {
			delete(s.of, message)
		}
	}
	return nil
}

// CH-182, CL-09: a message that is sent again to another replica is answered like the first time there, and runs nothing.
func TestAResultIsFoundAtEveryReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		journal, kept := channel.NewJournal(nil), new(sharedResults)
		settings := func(s *Settings, k *channel.Kernel) {
			s.Ack, s.Callback, s.Shared, k.Journal = AckResult, "", kept, journal
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
		if err := b.c.EraseSession("webhook:c1"); err != nil || len(kept.of) != 0 {
			t.Errorf("%v; after the session was erased there is %v", err, kept.of)
		}
		kept.away = true
		if again = b.post("msg-1", hello("x")); again.status != http.StatusAccepted || !again.Duplicate || len(b.told()) != 0 {
			t.Errorf("while nothing can be read: %+v, and %d turns", again, len(b.told()))
		}
	})
}

// With a callback, who asks for nothing does not wait.
func TestAMessageThatIsNotAnsweredWithItsReplyIsNotWaitedFor(t *testing.T) { // CH-182
	bubble(t, func(t *testing.T) {
		journal := channel.NewJournal(nil)
		settings := func(s *Settings, k *channel.Kernel) { s.Shared, k.Journal = new(sharedResults), journal }
		a, b := newRig(t, settings), newRig(t, settings)
		a.post("msg-1", hello("x"))
		began := time.Now()
		if again := b.post("msg-1", hello("x")); again.status != http.StatusAccepted || !again.Duplicate || time.Since(began) > 0 {
			t.Errorf("after %v %+v", time.Since(began), again)
		}
	})
}

func TestResultsInAFolderAreKeptForADay(t *testing.T) { // CH-182
	dir := filepath.Join(t.TempDir(), "results")
	f := &folder{dir: vfs.At(dir)}
	f.save("a", "s", []byte(`{"session":"s"}`))
	f.save("b", "s", []byte(`{"session":"s"}`))
	if err := os.Chtimes(filepath.Join(dir, fileOf("b")), time.Time{}, time.Now().Add(-keepFor-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if f.load(t.Context(), "a") == nil || f.load(t.Context(), "b") != nil {
		t.Error("one of today is not there, or one of yesterday is")
	}
	f.open()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v, expected one file", left, err)
	}
	if err := f.erase("other"); err != nil || f.load(t.Context(), "a") == nil {
		t.Errorf("another session was erased: %v", err)
	}
	if err := f.erase("s"); err != nil || f.load(t.Context(), "a") != nil {
		t.Errorf("erased: %v", err)
	}
}

// Each call of the folder of results to its disk fails once, and with all calls after it. What is read is whole, an erasure that is reported
// stays also after a loss of power, and keeping goes on when the disk does.
func TestEachCallOfTheResultsToTheDiskMayFail(t *testing.T) { // CH-182
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		ctx := t.Context()
		f := &folder{dir: d.Dir}
		text := func(session string) string { return `{"session":"` + session + `"}` }
		f.open()
		f.save("a", "s", []byte(text("s")))
		f.save("b", "other", []byte(text("other")))
		f.save("a", "s", []byte(text("s"))) // again
		f.open()
		for id, session := range map[string]string{"a": "s", "b": "other"} {
			if got := f.load(ctx, id); got != nil && string(got) != text(session) {
				t.Errorf("%s: %q", id, got)
			}
		}
		if err := f.erase("s"); err == nil {
			for _, after := range []*vfstest.Disk{d.Crash(false), d.Crash(true)} {
				if got := (&folder{dir: after.Dir}).load(ctx, "a"); got != nil {
					t.Errorf("an answer that was erased is there: %q", got)
				}
			}
		}
		d.Mend()
		f.save("c", "s", []byte(text("s")))
		if got := f.load(ctx, "c"); string(got) != text("s") {
			t.Errorf("with the disk back: %q", got)
		}
		if err := f.erase("s"); err != nil || f.load(ctx, "c") != nil || f.load(ctx, "a") != nil {
			t.Errorf("with the disk back, erased: %v", err)
		}
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after the last use: %q", open)
		}
	})
}
