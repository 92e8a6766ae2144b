package bot

import (
	"encoding/json"

	"github.com/lingserve/lingserve/jsonuri"
)

// jsonReader reads answers that are JSON.
type jsonReader struct {
	*output
	parser *jsonuri.Parser
}

func newJSONReader(o *output) *jsonReader {
	return &jsonReader{o, jsonuri.NewParser(o.handler(), &jsonuri.Options{Root: o.bot.root, Repair: true})}
}

func (r *jsonReader) write(chunk string) error {
	_, err := r.parser.WriteString(chunk)
	return err
}

func (r *jsonReader) close() error {
	if err := r.parser.Close(); err != nil {
		return err
	}
	if !r.wrote && r.begin != nil { // an empty object without a root
		r.begin()
	}
	return nil
}

func (r *jsonReader) mayStop() bool           { return r.parser.MayStop() }
func (r *jsonReader) complete() bool          { return r.parser.Complete() }
func (r *jsonReader) repairs() map[string]int { return r.parser.Repairs() }

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

// listen puts in what the bot's listeners want to be told.
func (o *output) listen(h *jsonuri.Handler) {
	var strings, objects, scalars bool
	for _, l := range o.bot.listeners {
		strings = strings || l.String != nil
		objects = objects || l.Object != nil
		scalars = scalars || l.Scalar != nil
	}
	listeners := o.bot.listeners
	if strings {
		h.String = func(uri []byte, value string) {
			if o.muted {
				return
			}
			v := StringValue{URI: string(uri), Value: value}
			for _, l := range listeners {
				if l.String != nil {
					l.String(v)
				}
			}
		}
	}
	if objects {
		h.Object = func(uri, value []byte) {
			if o.muted {
				return
			}
			v := ObjectValue{URI: string(uri), Value: append(json.RawMessage(nil), value...)}
			for _, l := range listeners {
				if l.Object != nil {
					l.Object(v)
				}
			}
		}
	}
	if scalars {
		h.Scalar = func(uri, value []byte) {
			if o.muted {
				return
			}
			v := ObjectValue{URI: string(uri), Value: append(json.RawMessage(nil), value...)}
			for _, l := range listeners {
				if l.Scalar != nil {
					l.Scalar(v)
				}
			}
		}
	}
}
