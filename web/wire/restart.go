package wire

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// awaitRestart waits until a run whose server was lost has taken back what it writes again, so that a stream that cannot take anything back
// does not have it twice. keepAlive is the time after which the client gets a comment; 0 is never.
func awaitRestart(ctx context.Context, out frame.Output, reader *tube.Reader, keepAlive time.Duration) error {
	defer reader.Leave()
	var tick <-chan time.Time
	if keepAlive > 0 {
		ticker := time.NewTicker(keepAlive)
		defer ticker.Stop()
		tick = ticker.C
	}
	for r := (restart{reader: reader}); !r.over(); {
		select {
		case <-reader.More():
		case <-tick:
			if _, err := out.Write([]byte(":\n")); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// restart watches a run whose server was lost until it has taken back what it writes again. Behind its event "restarted" the run sets each
// part that the event names to null.
type restart struct {
	reader    *tube.Reader
	looked    bool   // at what was there in the beginning
	filled    bool   // there was a document
	restarted bool   // the event has come
	end       uint64 // number behind the last null
}

// over reads what there is, and reports whether nothing will be taken back any more.
func (r *restart) over() bool {
	first := !r.looked
	r.looked = true
	for e := range r.reader.Waiting() {
		switch {
		case e.Terminal():
			return true
		case e.Kind == tube.Named && e.Name == "restarted" && e.N/run.Epoch == r.reader.Next()/run.Epoch: // else of an earlier restart
			var data struct{ Parts []string }
			_ = json.Unmarshal(e.Value, &data) // ours
			r.restarted, r.end = true, e.N+1+uint64(len(data.Parts))
			if slices.Contains(data.Parts, "") { // which becomes {} behind null
				r.end++
			}
		case e.Kind == tube.Named && r.restarted && !first:
			return true
		case e.Kind > tube.Set, string(e.Value) == "null", string(e.Value) == "{}":
		case first:
			r.filled = true
		default: // the run writes
			return true
		}
	}
	if first && !r.filled && !r.restarted {
		return true
	}
	return r.reader.Ended() || r.restarted && r.reader.Next() >= r.end
}
