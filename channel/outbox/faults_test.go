package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
)

// kept is an outbox on a disk, with its engine.
type kept struct {
	*outbox.Outbox
	e    store.Engine
	news map[uint64]channel.BlockNews
}

func openKept(t *testing.T, dir vfs.Dir) (*kept, error) {
	e, err := file.Open(dir, file.Options{})
	if err != nil {
		return nil, err
	}
	o, err := outbox.Open(t.Context(), e, outbox.Options{})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	k := &kept{o, e, map[uint64]channel.BlockNews{}}
	return k, o.Start(func(n channel.BlockNews) { k.news[n.ID] = n })
}

func (k *kept) end() { _ = errors.Join(k.Close(), k.e.Close()) }

// Each call of an outbox to its disk fails once, and with all calls after it. A block that was taken is there until its end, with the last step
// that was stored, and the outbox goes on when the disk does.
func TestEachCallOfAnOutboxToTheDiskMayFail(t *testing.T) { // CH-56
	longtest.Only(t, "every call to the disk fails once")
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		synctest.Test(t, func(t *testing.T) { outboxLife(t, d) })
	})
}

func outboxLife(t *testing.T, d *vfstest.Disk) {
	ctx := t.Context()
	open := func() *kept {
		k, err := openKept(t, d.Dir)
		if err != nil {
			d.Mend()
			if k, err = openKept(t, d.Dir); err != nil {
				t.Fatal(err)
			}
		}
		return k
	}
	type block struct {
		name    string
		sending bool // its last step is stored
		ended   bool // its end was tried
	}
	blocks := map[uint64]*block{}
	check := func(when string, power bool) {
		t.Helper()
		k, err := openKept(t, d.Crash(power).Dir)
		if err != nil {
			t.Fatal(when, err)
		}
		defer k.end()
		for id, b := range blocks {
			is, ok := k.news[id]
			switch {
			case b.ended:
			case !ok || is.Event != b.name:
				t.Errorf("%s: block %d of %s is lost: %+v", when, id, b.name, is)
			case b.sending && !is.Sending:
				t.Errorf("%s: block %d of %s is sent, and it is not known", when, id, b.name)
			}
		}
	}
	k := open()
	n := 0
	put := func(session string) uint64 {
		n++
		name := fmt.Sprint("event ", n)
		id, err := k.Put(ctx, channel.StoredBlock{At: time.Now(), Size: 10, Block: channel.Outbound{Session: session, Event: name, Channel: "canary " + session}})
		if err != nil {
			return 0
		}
		if blocks[id] != nil {
			t.Errorf("two blocks have the id %d", id)
		}
		blocks[id] = &block{name: name}
		check("put", true)
		return id
	}
	step := func(id uint64) {
		if id == 0 {
			return
		}
		if err := k.Step(ctx, id, true, 1); errors.Is(err, channel.ErrBlockTaken) {
			t.Errorf("block %d is taken", id)
		} else if err == nil {
			blocks[id].sending = true
		}
		check("step", true)
	}
	end := func(id uint64) {
		if id != 0 {
			_ = k.End(ctx, id, channel.Sent)
			blocks[id].ended = true
			check("end", false)
		}
	}
	erase := func(session string) error {
		err := k.Erase(ctx, session)
		for id := range blocks {
			blocks[id].ended = blocks[id].ended || session == "a" && k.news[id].Gone
		}
		return err
	}
	one, two := put("a"), put("b")
	step(one)
	end(one)
	three := put("a")
	_ = erase("a")
	if three != 0 {
		blocks[three].ended = true
	}
	step(two)
	time.Sleep(2 * time.Minute) // a table is kept in order
	check("later", true)
	k.end()
	k = open()
	four := put("b")
	step(four)
	end(two)
	d.Mend()
	time.Sleep(time.Minute)
	last := put("b")
	if last == 0 {
		t.Error("the outbox does not go on")
	}
	step(last)
	if err := erase("a"); err != nil {
		t.Error(err)
	}
	time.Sleep(3 * time.Minute)
	k.end()
	check("closed", false)
	if d.Hit() != "" { // a part of a frame that was half erased may stay
		return
	}
	root, err := d.Dir(true)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if text, err := vfs.ReadFile(root, "outbox.table"); err != nil || strings.Contains(string(text), "canary a") { // ST-24
		t.Errorf("what was erased is there: %v", err)
	}
}
