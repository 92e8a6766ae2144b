package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
)

// admitFiles reserves memory for the files of a request before they are read.
func (s *Service) admitFiles(a *Request) error {
	parts := slices.Clone(a.Files)
	for _, m := range a.History {
		parts = append(parts, m.Parts...)
	}
	var n int64 // bytes, as text
	for _, p := range parts {
		n += int64(len(p.Image) + len(p.File))
		if id := mediapart.Ref(&p); id != "" {
			n += s.o.Files.Size(a.Who, id) / 3 * 4
		}
	}
	if n > mostMedia/3*4 {
		return tooMuch(LimitInput, "/files", "expected at most "+wording.Plural(mostMedia, "byte")+" of all files")
	}
	switch a.Account.Admit(n) {
	case adapter.Refused:
		return littleMemory("the server has no memory for the files of this request now; retry later")
	case adapter.Impossible:
		return tooMuch(LimitMemory, "/files", "the files exceed this server's memory limit; send fewer or smaller ones")
	}
	return nil
}

// mostMedia limits the files of one request, in bytes.
const mostMedia = 20 << 20

// room refuses a run whose models would read too much, and one that needs a disk or a new session without room for it. The number of
// active runs counts later, because a message may go to one of them.
func (s *Service) room(ctx context.Context, a *Request, sp *spec) error {
	if err := CheckSize(a, s.o.Input, s.o.Images); err != nil {
		return err
	}
	switch keep := sp.Keyed || sp.Session != ""; {
	case keep && s.o.Pressure.DiskBroken():
		return diskFull()
	case keep && s.o.Pressure.LowDisk():
		return overLimit(LimitDisk, "the server's disk is nearly full, so it starts no runs in sessions or with an Idempotency-Key; retry later", DiskRetry)
	}
	bounded, ok := s.o.Tapes.(interface {
		Room(ctx context.Context, session string) error
	})
	if !ok || sp.agent == nil {
		return nil
	}
	refused := bounded.Room(ctx, sp.Lane())
	if refused == nil {
		return nil
	}
	_, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, sp.Lane())
	switch {
	case err == nil: // the session is there already
		return nil
	case errors.Is(err, tape.ErrNotFound):
		err = refused
	}
	return s.SessionError(ctx, err)
}

// CheckSize checks how much text a request gives models to read. The pointers are those of the native wire.
func CheckSize(a *Request, limit, images int) error {
	if n := len(a.Files); n > images {
		return tooMuch(LimitImages, "", "expected at most "+wording.Plural(int64(images), "image")+fmt.Sprint(" and files, found ", n))
	}
	n, over := 0, error(nil)
	read := func(at, text string) {
		if n += utf8.RuneCountInString(text); n > limit && over == nil {
			over = tooMuch(LimitInput, at, "expected at most "+wording.Plural(int64(limit), "character")+" of content for models in total")
		}
	}
	read("", a.Instructions)
	for i, m := range a.History {
		at := ""
		if a.Completion != nil { // all messages of the body
			at = fmt.Sprintf("/messages/%d/content", i)
		}
		read(at, m.Content)
		for _, part := range m.Parts {
			read(at, part.Text)
		}
	}
	read("/input", string(a.Input))
	return over
}

// chargeTokens charges the caller of a run for its tokens, and ends the count of the run.
func (s *Service) chargeTokens(r *Run) {
	defer r.release()
	if s.o.Limits == nil || r.Caller == "" {
		return
	}
	tokens := 0
	for _, u := range r.result.Usage {
		tokens += u.TotalTokens
	}
	s.o.Limits.Charge(r.Caller, tokens)
}

// Full returns why no run can start now; nil if one can.
func (s *Service) Full() error {
	if s.o.Pressure.LowMemory() {
		return littleMemory(nothingBegins)
	}
	if running, _ := s.Running(); running >= s.o.MaxRuns {
		return tooManyRuns(running)
	}
	return nil
}
