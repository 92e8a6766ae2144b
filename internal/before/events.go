package before

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/internal/vfs"
)

// takeJournal takes in the events of the journal: its segments, the ledger, and what people see of unfinished answers.
func (c *channels) takeJournal(ctx context.Context) (int, error) {
	marks := map[string]channel.ReceiptState{}
	err := c.lines("journal/ledger.jsonl", func(line []byte) error {
		var l struct {
			Event string
			Mark  *struct {
				State channel.ReceiptState
				At    time.Time
			}
		}
		err := json.Unmarshal(line, &l)
		if delete(marks, l.Event); l.Mark != nil {
			marks[l.Event] = l.Mark.State
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	events, err := c.events()
	if err != nil {
		return 0, err
	}
	return inbox.Import(ctx, c.e, 0, func(yield func(inbox.Old, error) bool) {
		for _, e := range events {
			if !e.Settled {
				var err error
				event := e.Key.String()
				e.Seen = channel.NotSent
				if seen, ok := marks[event]; ok {
					e.Seen = seen
				}
				if e.Shown, err = c.shown(event); err != nil {
					yield(e, err)
					return
				}
			}
			if !yield(e, nil) {
				return
			}
		}
	})
}

// shown reads what people saw of an answer.
func (c *channels) shown(event string) (s channel.ShownText, err error) {
	sum := sha256.Sum256([]byte(event))
	text, err := vfs.ReadFile(c.root, "journal/shown-"+hex.EncodeToString(sum[:16])+".json")
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil && json.Unmarshal(text, &s) != nil {
		s = channel.ShownText{} // a text that was being written
	}
	return s, err
}

// events reads the segments of the journal. Of two records with one key the later counts.
func (c *channels) events() ([]inbox.Old, error) {
	names, err := vfs.Names(c.root, "journal")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	type placed struct {
		inbox.Old
		order int
	}
	all, order := map[channel.EventKey]placed{}, 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".events") {
			continue
		}
		text, err := vfs.ReadFile(c.root, path.Join("journal", name))
		if err != nil {
			return nil, err
		}
		end := 0
		for offset := 0; offset+headSize <= len(text); {
			e, size, ok := parseEvent(text[offset:])
			if !ok {
				offset += align
				continue
			}
			if offset > end {
				c.log.Error("a file of an earlier version is damaged and was not taken in",
					"file", path.Join("journal", name), "offset", end, "bytes", offset-end)
			}
			offset += size
			end = offset
			if key := e.Key; key != (channel.EventKey{}) {
				key.Synthetic = false
				order++
				all[key] = placed{e, order}
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b placed) int { return cmp.Compare(a.order, b.order) })
	events := make([]inbox.Old, len(sorted))
	for i, e := range sorted {
		events[i] = e.Old
	}
	return events, nil
}

// A record of a segment is a head, the parts of the key with their lengths, and the raw form, at a multiple of align. The head has a mark,
// the size of what follows (4 bytes), the time (8), flags (4), a checksum of these three and what follows (4), and the state (16).
const (
	align    = 64
	headSize = 48
	maxEvent = 4<<20 + 64<<10

	flagSynthetic = 1
	flagErased    = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// outcomes have the order of their numbers.
var outcomes = []channel.Outcome{
	"", channel.OutcomeVisible, channel.OutcomeSilent, channel.OutcomeObserved, channel.OutcomeDeferred, channel.OutcomeQueued,
	channel.OutcomeBlocked, channel.OutcomeMerged, channel.OutcomePartial, channel.OutcomeUnknown, channel.OutcomeFailed,
	channel.OutcomeCanceled,
}

// parseEvent reads the record that text begins with. An erased one has no key.
func parseEvent(text []byte) (e inbox.Old, size int, ok bool) {
	if string(text[:4]) != "Lev1" {
		return e, 0, false
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(text[at:]) }
	clock := func(at int) time.Time { return time.Unix(0, int64(binary.LittleEndian.Uint64(text[at:]))) }
	n := int64(number(4))
	if n > maxEvent || headSize+n > int64(len(text)) {
		return e, 0, false
	}
	text = text[:headSize+n]
	size = (len(text) + align - 1) / align * align
	if number(20) != crc32.Update(crc32.Checksum(text[4:20], castagnoli), castagnoli, text[headSize:]) {
		return e, 0, false
	}
	if number(16)&flagErased != 0 {
		return e, size, true
	}
	rest := text[headSize:]
	for _, part := range [...]*string{&e.Key.Channel, &e.Key.Account, &e.Key.Conversation, &e.Key.Thread, &e.Key.ID} {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			return inbox.Old{}, 0, false
		}
		*part = string(rest[used : used+int(n)])
		rest = rest[used+int(n):]
	}
	e.Key.Synthetic = number(16)&flagSynthetic != 0
	e.At = clock(8)
	state := text[24:40]
	if number(28) != crc32.Update(crc32.Checksum(state[:4], castagnoli), castagnoli, state[8:]) || int(state[1]) >= len(outcomes) {
		e.Raw = bytes.Clone(rest)
		return e, size, true // it was being written: the event may run again
	}
	e.Settled, e.Outcome, e.Attempt = state[0] == 1, outcomes[state[1]], int(state[2])
	switch {
	case !e.Settled:
		e.Raw = bytes.Clone(rest)
		if state[3] == 1 {
			e.Attempt++ // the process has ended in its turn
		}
	case e.Key.Synthetic:
		e.Until = e.At.Add(time.Minute)
	default:
		e.Until = clock(32).Add(24 * time.Hour)
	}
	return e, size, true
}

// takeOutbox takes in the blocks that wait to be sent.
func (c *channels) takeOutbox(ctx context.Context) (int, error) {
	type line struct {
		ID      uint64
		At      time.Time
		Block   *channel.Outbound
		Step    string
		Attempt int
	}
	blocks := map[uint64]line{}
	err := c.lines("outbox/outbox.jsonl", func(text []byte) error {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		b, known := blocks[l.ID]
		if l.Block != nil && !known {
			b, known = line{ID: l.ID, At: l.At, Block: l.Block}, true
		}
		switch {
		case !known:
			return nil
		case l.Step == "sending" || l.Step == "prepared":
			b.Step, b.Attempt = l.Step, l.Attempt
		case l.Step != "":
			delete(blocks, l.ID)
			return nil
		}
		blocks[l.ID] = b
		return nil
	})
	if err != nil {
		return 0, err
	}
	return outbox.Import(ctx, c.e, func(yield func(outbox.Old, error) bool) {
		for _, id := range slices.Sorted(maps.Keys(blocks)) {
			b := blocks[id]
			key := fmt.Sprint("before-", id, "-", b.At.UnixNano())
			old := outbox.Old{Key: key, At: b.At, Block: *b.Block, Attempt: b.Attempt, Sending: b.Step == "sending"}
			if !yield(old, nil) {
				return
			}
		}
	})
}

// lines reads a file of lines. A damaged line is left out, and an end that a crash has cut off is as if it had never been written.
func (c *channels) lines(name string, each func(line []byte) error) error {
	text, err := vfs.ReadFile(c.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	offset := 0
	lines := bufio.NewScanner(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		line := lines.Bytes()
		_, summed, matches := crcline.Cut(line)
		if summed && !matches {
			err = errors.New("its checksum does not match")
		} else {
			err = each(line)
		}
		if err != nil {
			c.log.Error("a file of an earlier version is damaged and was not taken in", "file", name, "offset", offset, "error", err)
		}
		offset += len(line) + 1
	}
	return lines.Err()
}
