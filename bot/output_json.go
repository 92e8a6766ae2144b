package bot

import (
	"bytes"
	"slices"

	"github.com/lingserve/lingserve/jsonuri"
)

// jsonReader reads answers that are JSON.
type jsonReader struct {
	*output
	*jsonuri.Parser
}

func newJSONReader(o *output) *jsonReader {
	return &jsonReader{o, jsonuri.NewParser(o.handler(), &jsonuri.Options{Root: o.bot.root, Repair: true})}
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

// listen puts in what the bot's listeners want.
func (o *output) listen(h *jsonuri.Handler) {
	if wanted(o, stringCallback) {
		h.String = func(uri []byte, value string) {
			emit(o, StringValue{URI: string(uri), Value: value}, stringCallback)
		}
	}
	if wanted(o, objectCallback) {
		h.Object = func(uri, value []byte) {
			emit(o, ObjectValue{URI: string(uri), Value: bytes.Clone(value)}, objectCallback)
		}
	}
	if wanted(o, scalarCallback) {
		h.Scalar = func(uri, value []byte) {
			emit(o, ObjectValue{URI: string(uri), Value: bytes.Clone(value)}, scalarCallback)
		}
	}
}

func stringCallback(l Listener) func(StringValue) { return l.String }
func objectCallback(l Listener) func(ObjectValue) { return l.Object }
func scalarCallback(l Listener) func(ObjectValue) { return l.Scalar }

// wanted reports whether a listener has a callback.
func wanted[T any](o *output, callback func(Listener) func(T)) bool {
	return slices.ContainsFunc(o.bot.listeners, func(l Listener) bool { return callback(l) != nil })
}

// emit calls a callback of all listeners that have it, unless the output is muted.
func emit[T any](o *output, value T, callback func(Listener) func(T)) {
	if o.muted {
		return
	}
	for _, l := range o.bot.listeners {
		if f := callback(l); f != nil {
			f(value)
		}
	}
}
