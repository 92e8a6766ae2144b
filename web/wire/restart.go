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
// does not have it twice. After its event "restarted" the run sets each part that the event names to null. keepAlive is the time after which
// the client gets a comment; 0 is never.
func awaitRestart(ctx context.Context, out frame.Output, reader *tube.Reader, keepAlive time.Duration) error {
	defer reader.Leave()
	var tick <-chan time.Time
	if keepAlive > 0 {
		ticker := time.NewTicker(keepAlive)
		defer ticker.Stop()
		tick = ticker.C
	}
	written := false   // there was a document
	nulls := uint64(0) // number behind the last null; 0 before "restarted"
	for first := true; ; first = false {
		for e := range reader.Waiting() {
			isNull := e.Kind == tube.Done || string(e.Value) == "null" || string(e.Value) == "{}"
			switch {
			case e.Terminal():
				return nil
			case e.Kind == tube.Named && e.Name == "restarted" && e.N/run.Epoch == reader.Next()/run.Epoch: // else of an earlier restart
				nulls = e.N + 1 + countNulls(e.Value)
			case first:
				written = written || e.Kind <= tube.Set && !isNull
			case e.Kind == tube.Named && nulls > 0, e.Kind <= tube.Set && !isNull: // the run goes on
				return nil
			}
		}
		if first && !written && nulls == 0 || nulls > 0 && reader.Next() >= nulls || reader.Ended() {
			return nil
		}
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
}

// countNulls returns the number of events by which a run takes back the parts that its event "restarted" names. A root is {} after null.
func countNulls(restarted []byte) uint64 {
	var data struct{ Parts []string }
	_ = json.Unmarshal(restarted, &data) // ours
	if slices.Contains(data.Parts, "") {
		data.Parts = append(data.Parts, "")
	}
	return uint64(len(data.Parts))
}
