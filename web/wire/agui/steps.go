package agui

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/web/wire/frame"
)

// steps are the bots of a workflow that are at work, in the order of their starts. A step is open from the first start of a bot until
// none of its starts is at work.
type steps []step

type step struct {
	bot    string
	starts int // that are at work
}

// see takes the data of an event that says that a bot has started or ended.
func (s *steps) see(dst, data []byte) []byte {
	var said struct{ Bot, State string }
	if json.Unmarshal(data, &said) != nil {
		return dst
	}
	i := slices.IndexFunc(*s, func(b step) bool { return b.bot == said.Bot })
	switch {
	case said.State == "started" && i < 0:
		*s = append(*s, step{said.Bot, 1})
		return writeStep(dst, stepStarted, said.Bot)
	case said.State == "started":
		(*s)[i].starts++
	case i >= 0 && (*s)[i].starts > 1:
		(*s)[i].starts--
	case i >= 0:
		*s = slices.Delete(*s, i, i+1)
		return writeStep(dst, stepFinished, said.Bot)
	}
	return dst
}

// reopen tells a client of the steps that are open, which has not been told.
func (s *steps) reopen(dst []byte) []byte {
	for _, b := range *s {
		dst = writeStep(dst, stepStarted, b.bot)
	}
	return dst
}

// close ends all steps.
func (s *steps) close(dst []byte) []byte {
	for _, b := range *s {
		dst = writeStep(dst, stepFinished, b.bot)
	}
	*s = nil
	return dst
}

func writeStep(dst []byte, kind, bot string) []byte {
	return frame.End(frame.Text(frame.Begin(dst, kind), "stepName", bot))
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
