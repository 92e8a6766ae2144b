package nats

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

func options() *tube.Options {
	return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }}
}

// written are the records of a run with a few events.
func written(t testing.TB, texts ...string) []byte {
	t.Helper()
	o := options()
	o.Held = true
	tb := tube.New("run", o)
	for _, text := range texts {
		if _, err := tb.Send(tube.Event{URI: []byte("a"), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	e := &entry{log: &Log{}, run: runlog.Run{ID: "run", Opening: []byte("opening"), Tube: tb}}
	records := e.collect()
	if len(records) == 0 {
		t.Fatal("nothing")
	}
	return records
}

func message(batch, part uint64, flags byte, begin, before uint64, records []byte) []byte {
	h := head{id: id{"replica", 1, batch, part}, flags: flags, begin: begin, before: before}
	return append(h.append(nil), records...)
}

func TestABatchOfSeveralMessagesCountsWhenItIsWhole(t *testing.T) {
	records := written(t, "one", "two")
	a := &applied{run: "run", options: options()}
	for i, b := range records {
		flags := byte(flagMore)
		if i == len(records)-1 {
			flags = 0
		}
		begin := uint64(0)
		if i > 0 {
			begin = 1
		}
		if err := a.take(uint64(i+1), message(1, uint64(i), flags, begin, uint64(i), []byte{b})); err != nil {
			t.Fatal(err)
		}
		if (a.follower != nil) != (flags == 0) {
			t.Fatalf("after part %d of %d", i, len(records))
		}
	}
	if a.follower.Tube().Len() != 2 || string(load(&a.opening)) != "opening" || a.begin != 1 {
		t.Errorf("%d events, opening %q, begin %d", a.follower.Tube().Len(), load(&a.opening), a.begin)
	}
}

// A replica that dies in the middle of a batch leaves a part of one, which does not count.
func TestAPartOfABatchDoesNotCount(t *testing.T) {
	a := &applied{run: "run", options: options()}
	if err := a.take(1, message(1, 0, 0, 0, 0, written(t, "one"))); err != nil {
		t.Fatal(err)
	}
	for i, m := range [][]byte{
		message(2, 0, flagMore, 1, 1, []byte{recordEnd, 200, 'x'}),
		message(2, 2, 0, 1, 2, []byte("of another part")),
		message(3, 1, 0, 1, 3, []byte("of another batch")),
		message(4, 0, 0, 1, 4, appendText([]byte{recordEnd}, "head")),
	} {
		if err := a.take(uint64(i+2), m); err != nil {
			t.Fatal(err)
		}
	}
	if string(load(&a.head)) != "head" {
		t.Errorf("head %q", load(&a.head))
	}
}

func TestMessagesOfNoKnownFormAreRefused(t *testing.T) {
	whole := message(1, 0, 0, 0, 0, written(t, "one"))
	for name, m := range map[string][]byte{
		"nothing":                {},
		"another version":        append([]byte{9}, whole[1:]...),
		"a head that is cut off": whole[:6],
		"no record":              message(1, 0, 0, 0, 0, []byte("?")),
		"something before it":    message(1, 0, 0, 0, 0, appendText([]byte{recordEnd}, "head")),
		"a text that is cut off": message(1, 0, 0, 0, 0, []byte{recordRun, 0, 5, 'x'}),
		"a number too large":     message(1, 0, 0, 0, 0, append([]byte{recordRun}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0)),
		"a piece that is none":   message(1, 0, 0, 0, 0, append([]byte{recordRun, 0, 0, recordPiece, 0, 0}, appendText(nil, "\xff\xff")...)),
	} {
		a := &applied{run: "run", options: options()}
		if err := a.take(1, m); !errors.Is(err, errMessage) && !errors.Is(err, tube.ErrArchive) && (err == nil || !strings.Contains(err.Error(), "before the beginning")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := &applied{run: "run", options: options()}
	if err := a.take(5, message(2, 0, 0, 3, 4, nil)); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("what began with something that has expired: %v", err)
	}
}

func TestAnswersAreRead(t *testing.T) {
	for answer, want := range map[string]string{
		`{"stream":"RUNS","seq":12}`:                                            "12 0 ok",
		`{"stream":"RUNS", "seq": 7, "duplicate": true}`:                        "7 0 ok",
		`{"stream":"\"seq\":5","domain":"x","seq":8}`:                           "8 0 ok",
		`{"error":{"code":400,"err_code":10071,"description":"wrong"},"seq":0}`: "0 10071 failed",
		`{"stream":"RUNS"}`:                                                     "0 0 failed",
		`-ERR`:                                                                  "0 0 failed",
		``:                                                                      "0 0 failed",
	} {
		seq, code, err := parseAck([]byte(answer))
		state := "ok"
		if err != nil {
			state = "failed"
		}
		if got := fmt.Sprint(seq, " ", code, " ", state); got != want {
			t.Errorf("%s: %s", answer, got)
		}
	}
	if seq, data, err := parseLast([]byte(`{"message":{"subject":"s","seq":3,"data":"eA=="}}`)); seq != 3 || string(data) != "x" || err != nil {
		t.Error(seq, data, err)
	}
	if _, _, err := parseLast([]byte(`{"error":{"code":404,"err_code":10037}}`)); !errors.Is(err, runlog.ErrUnknown) {
		t.Error(err)
	}
	for _, bad := range []string{`{}`, `x`, `{"error":{"err_code":1}}`} {
		if _, _, err := parseLast([]byte(bad)); err == nil || errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	whole := message(1, 0, 0, 0, 0, written(f, "one", "two"))
	f.Add(whole, message(2, 0, 0, 1, 1, appendText([]byte{recordEnd}, "head")))
	f.Add(whole, message(2, 0, flagMore, 1, 1, []byte{recordLeap, 200, 1}))
	f.Add(message(1, 0, flagMore, 0, 0, whole[:3]), message(1, 1, 0, 1, 1, whole[3:]))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := &applied{run: "run", options: options()}
		_ = a.take(1, bytes.Clone(one))
		_ = a.take(2, bytes.Clone(two))
		if h, rest, err := parse(one); err == nil {
			again := append(h.append(nil), rest...)
			if g, left, err := parse(again); err != nil || g != h || !bytes.Equal(left, rest) {
				t.Fatalf("%+v became %+v, %v", h, g, err)
			}
		}
		if a.follower != nil && a.follower.Tube().Unshown() > 0 {
			t.Fatal("something is not shown")
		}
	})
}
