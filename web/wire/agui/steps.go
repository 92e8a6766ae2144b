package agui

import (
	"encoding/json"
	"slices"

	"github.com/lingserve/lingserve/web/wire/frame"
)

// steps are the running bots of a workflow, in the order of their starts. A bot that runs several times at once is one step.
type steps []step

type step struct {
	bot     string
	running int
}

// update reads the data of an event that says that a bot started or ended.
func (s *steps) update(dst, data []byte) []byte {
	var event struct{ Bot, State string }
	if json.Unmarshal(data, &event) != nil {
		return dst
	}
	i := slices.IndexFunc(*s, func(b step) bool { return b.bot == event.Bot })
	switch {
	case event.State == "started" && i < 0:
		*s = append(*s, step{event.Bot, 1})
		return frame.Chunk(dst, stepStarted, "stepName", event.Bot)
	case event.State == "started":
		(*s)[i].running++
	case i >= 0 && (*s)[i].running > 1:
		(*s)[i].running--
	case i >= 0:
		*s = slices.Delete(*s, i, i+1)
		return frame.Chunk(dst, stepFinished, "stepName", event.Bot)
	}
	return dst
}

// close ends all steps.
func (s *steps) close(dst []byte) []byte {
	for _, b := range *s {
		dst = frame.Chunk(dst, stepFinished, "stepName", b.bot)
	}
	*s = nil
	return dst
}
