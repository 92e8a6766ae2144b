package bot

import (
	"bytes"

	"github.com/lingserve/lingserve/jsonuri"
)

// jsonReader reads answers that are JSON.
type jsonReader struct {
	*output
	*jsonuri.Parser
}

func (r *jsonReader) write(chunk string) error {
	_, err := r.WriteString(chunk)
	return err
}

func (r *jsonReader) close() error {
	if err := r.Close(); err != nil {
		return err
	}
	r.start() // of an empty object without a root, there was no delta
	return nil
}

// handler listens to no more than is wanted: what is listened to is collected.
func (o *output) handler() jsonuri.Handler {
	h := jsonuri.Handler{Delta: o.delta}
	if !o.held {
		o.listen(&h)
		if o.bot.config.Done {
			h.Done = o.done
		}
	}
	if listener := h.Object; o.keep {
		h.Object = func(uri, value []byte) {
			if len(uri) == len(o.root) {
				o.collected, o.isText = append(o.collected[:0], value...), false
			}
			if listener != nil {
				listener(uri, value)
			}
		}
	}
	return h
}

// listen puts in what the bot's listeners want. They get nothing while the output is muted.
func (o *output) listen(h *jsonuri.Handler) {
	l := &o.bot.listener
	values := func(call func(ObjectValue)) func(uri, value []byte) {
		if call == nil {
			return nil
		}
		return func(uri, value []byte) {
			if !o.muted {
				call(ObjectValue{URI: string(uri), Value: bytes.Clone(value)})
			}
		}
	}
	h.Object, h.Scalar = values(l.Object), values(l.Scalar)
	if l.String != nil {
		h.String = func(uri []byte, value string) {
			if !o.muted {
				l.String(StringValue{URI: string(uri), Value: value})
			}
		}
	}
}
