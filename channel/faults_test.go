package channel

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// Each call of a ledger to its disk fails once, and with all calls after it. What is about to be seen is known after every end, also
// that of the machine, and the ledger goes on when it is opened again.
func TestEachCallOfALedgerToTheDiskMayFail(t *testing.T) { // CH-74
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		ctx := t.Context()
		open := func() LedgerCloser {
			l, err := OpenLedgerIn(d.Dir, nil)
			if err != nil {
				d.Mend()
				if l, err = OpenLedgerIn(d.Dir, nil); err != nil {
					t.Fatal(err)
				}
			}
			return l
		}
		want := map[string][]ReceiptState{} // what may be known of an event
		check := func(power bool) {
			after := d.Crash(power)
			l, err := OpenLedgerIn(after.Dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for event, states := range want {
				if power && states[0] != NotSent { // only that it was about to be seen is durable
					states = append(states, UnknownWhether)
				}
				if got, _ := l.Seen(ctx, event); !slices.Contains(states, got) {
					t.Errorf("power lost %v: of %s %v is known, expected one of %v", power, event, got, states)
				}
			}
		}
		l := open()
		use := func(event string, s ReceiptState) bool {
			if l.Sending(ctx, event) != nil {
				return false // nothing is sent
			}
			want[event] = []ReceiptState{UnknownWhether}
			check(true)
			if l.Sent(ctx, event, s) == nil {
				want[event] = []ReceiptState{s}
			} else {
				want[event] = append(want[event], s)
			}
			check(false)
			return true
		}
		use("a", Sent)
		use("b", Partial)
		_ = l.Forget(ctx, "a")
		delete(want, "a")
		_ = l.Forget(ctx, "b") // which empties the file
		delete(want, "b")
		use("c", Sent)
		check(true)
		_ = l.Close()
		l = open()
		use("d", Sent)
		d.Mend()
		if !use("e", Sent) {
			_ = l.Close()
			l = open()
			if !use("e", Sent) {
				t.Error("the ledger does not go on")
			}
		}
		_ = l.Close()
		check(false)
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after Close: %q", open)
		}
	})
}

// Each call of an outbox to its disk fails once, and with all calls after it. A block that was taken is there until its end, with the
// last step that was stored, and the outbox goes on when it is opened again.
func TestEachCallOfAnOutboxToTheDiskMayFail(t *testing.T) { // CH-56
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		ctx := t.Context()
		open := func(d *vfstest.Disk) *outboxLines {
			s, err := openOutboxLinesIn(d.Dir, nil)
			if err != nil {
				d.Mend()
				if s, err = openOutboxLinesIn(d.Dir, nil); err != nil {
					t.Fatal(err)
				}
			}
			return s
		}
		type block struct {
			name    string
			sending bool // its last step is stored
			ended   bool // its end was tried
		}
		blocks := map[uint64]*block{}
		check := func(when string, power bool) {
			t.Helper()
			after := d.Crash(power)
			s := open(after)
			defer s.Close()
			for id, b := range blocks {
				is := s.blocks[id]
				switch {
				case b.ended:
				case is == nil || is.Block.Event != b.name:
					t.Errorf("%s: block %d of %s is lost: %+v", when, id, b.name, is)
				case b.sending && is.Step != stepSending:
					t.Errorf("%s: block %d of %s is sent, and the file says %q", when, id, b.name, is.Step)
				}
			}
			for id, is := range s.blocks {
				if b := blocks[id]; b != nil && !b.ended && is.Block.Event != b.name {
					t.Errorf("%s: block %d is %+v", when, id, is)
				}
			}
		}
		s := open(d)
		n := 0
		put := func(session string) uint64 {
			n++
			name := fmt.Sprint("event ", n)
			id, err := s.Put(ctx, StoredBlock{At: time.Now(), Size: 10, Block: Outbound{Session: session, Event: name}})
			if err != nil {
				return 0
			}
			if b := blocks[id]; b != nil && !b.ended {
				t.Errorf("two blocks have the id %d", id)
			}
			blocks[id] = &block{name: name}
			check("put", true)
			return id
		}
		step := func(id uint64) {
			if id != 0 {
				if err := s.Step(ctx, id, true, 1); errors.Is(err, ErrBlockTaken) {
					t.Errorf("block %d is taken", id)
				} else if err == nil {
					blocks[id].sending = true
				}
				check("step", true)
			}
		}
		end := func(id uint64) {
			if id != 0 {
				_ = s.End(ctx, id, Sent)
				blocks[id].ended = true
				check("end", false)
			}
		}
		one, two := put("a"), put("b")
		step(one)
		end(one)
		_ = s.Erase(ctx, "a") // which writes the file anew
		step(two)
		three := put("a")
		check("erased", true)
		check("erased", false)
		_ = s.Close()
		s = open(d)
		step(three)
		end(two)
		end(three)
		d.Mend()
		last := put("a")
		if last == 0 {
			_ = s.Close()
			s = open(d)
			if last = put("a"); last == 0 {
				t.Error("the outbox does not go on")
			}
		}
		step(last)
		_ = s.Close()
		check("closed", false)
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after Close: %q", open)
		}
	})
}
