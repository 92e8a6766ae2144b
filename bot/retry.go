package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// OnInvalid says what becomes of an answer that does not fit its schema, or holds no document.
type OnInvalid string

const (
	// Report reports each violation and leaves the answer as it is. An answer without a document is the bot's error.
	Report OnInvalid = "report"
	// Retry asks the same model once more, with what is wrong in the message. The second answer takes the place of the first:
	// when it begins, and not before, what the first wrote is set to null, which is the whole of the bot's root where nothing
	// of others stands, and each member that it named otherwise. Where no second answer begins, the first stays. Deltas are
	// sent as they come; listeners, and readers of Done events, get values only when an answer stays. It is of use
	// for [JSON] alone.
	Retry OnInvalid = "retry"
	// Fail makes an answer that does not fit the bot's error. It stays; but as with Retry, listeners get its values only
	// when it is certain to fit.
	Fail OnInvalid = "fail"
	// RetryThenFail is Retry, with Fail for the answer that stays.
	RetryThenFail OnInvalid = "retry_then_fail"
)

// retries says whether the model is asked once more.
func (o OnInvalid) retries() bool { return o == Retry || o == RetryThenFail }

// Fails says whether an answer that does not fit is the bot's error.
func (o OnInvalid) Fails() bool { return o == Fail || o == RetryThenFail }

// Strict is o for those who take no answer that does not fit.
func (o OnInvalid) Strict() OnInvalid {
	if o.retries() {
		return RetryThenFail
	}
	return Fail
}

// Bounds of what the model gets back of its first answer, in bytes.
const (
	maxEcho       = 64 << 10 // of a document
	maxEchoText   = 4 << 10  // of text without one
	maxEchoSchema = 8 << 10
)

var errUnmet = errors.New("bot: the model waits for tools")

// worthRetry reports whether the model is asked once more because of this answer, or its failure.
func (i *inference) worthRetry(failure error) bool {
	c := &i.bot.config
	return !i.retried && c.OnInvalid.retries() && c.format() == JSON && !i.bot.byHand.Load() && (missing(failure) || failure == nil && !i.fits())
}

// missing reports whether an answer failed because it has no document.
func missing(failure error) bool {
	return errors.Is(failure, jsonuri.ErrNoDocument) || errors.Is(failure, errUnmet)
}

// retry makes the inference that asks once more.
func (i *inference) retry(failure error) *inference {
	i.bot.report(i.rejection(failure))
	second := i.bot.infer(i)
	second.after = append(i.after, i.correction(missing(failure))...)
	second.retried = true
	return second
}

// rejection says why the model is asked again.
func (i *inference) rejection(failure error) *Failure {
	if failure != nil {
		f, _ := Describe(explain(failure, i.finish))
		return &Failure{Code: f.Code, Message: f.Message + "; the server retries once", Cause: f.Cause}
	}
	f := i.misfit()
	f.Message += "; the server retries once"
	return f
}

// misfit says how the answer does not fit its schema: all that was found.
func (i *inference) misfit() *Failure {
	f := i.invalid[0].failure(i.bot.root)
	if len(i.invalid) > 1 {
		f.Message = misfitMessage + strings.Join(describeAll(i.invalid, Pointer(i.bot.root)), "; ")
	}
	if i.Truncated { // it may be the reason for the rest
		f.Message = truncatedMessage + "; " + f.Message
	}
	return f
}

// fits says whether the answer fits its schema, as far as that is known.
func (i *inference) fits() bool { return len(i.invalid) == 0 || i.invalid[0].Unchecked }

// correction is what follows the question when it is put again: the answer, and what is wrong with it.
func (i *inference) correction(missing bool) []adapter.Message {
	var messages []adapter.Message
	echo, most := i.said, maxEchoText
	if !missing {
		echo, most = i.Value, maxEcho
	}
	var ask strings.Builder
	if len(echo) > 0 {
		text := string(echo)
		if len(text) > most {
			text = wording.ClipTo(text, most)
			ask.WriteString("Only the beginning of your answer is repeated here. ")
		}
		messages = append(messages, adapter.Message{Role: adapter.Assistant, Content: text})
	}
	switch {
	case missing && i.finish == adapter.FinishToolCalls:
		ask.WriteString("There are no tools to call, and your answer holds no JSON document.\n")
	case missing:
		ask.WriteString("Your answer holds no JSON document.\n")
	default:
		ask.WriteString("Your document does not fit its JSON Schema:\n- " + strings.Join(describeAll(i.invalid, ""), "\n- ") + "\n")
	}
	if i.finish == adapter.FinishLength {
		ask.WriteString("It was cut off, because it was too long: be shorter.\n")
	}
	ask.WriteString("Answer again, with the whole document as one piece of JSON and nothing else: no explanation, no code fence.")
	if schema := i.bot.config.Schema; len(schema) > 0 && len(schema) <= maxEchoSchema {
		ask.WriteString("\nIts JSON Schema:\n")
		ask.Write(schema)
	}
	return append(messages, adapter.Message{Role: adapter.User, Content: ask.String()})
}

// clear takes back an earlier answer, which is value.
func (o *output) clear(value json.RawMessage) {
	if value[0] != '{' {
		o.empty(value)
		return
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(value, &object) // it was parsed before
	var members [][]byte
	for _, name := range slices.Sorted(maps.Keys(object)) {
		members = append(members, []byte(jsonuri.Join(o.bot.root, jsonuri.Format(name))))
	}
	o.retract(members, func(here json.RawMessage) bool {
		var own jsonuri.Document
		return own.Set(nil, value) == nil && bytes.Equal(here, own.AppendJSON(nil))
	})
}

// replace takes back what is at the root, unless another bot writes there: another bot's answer, or the bot's last one.
func (o *output) replace() { o.retract(nil, func(json.RawMessage) bool { return true }) }

// retract takes back what was written: all that is at the root if no other bot writes there and it is as own says, or else the members.
func (o *output) retract(members [][]byte, own func(here json.RawMessage) bool) {
	empty := func(here json.RawMessage) bool {
		if len(here) > 0 && !own(here) {
			return false
		}
		if len(here) > 0 {
			o.empty(here)
		}
		return true
	}
	alone := o.bot.env.Alone
	if alone == nil && !empty(o.here()) || alone != nil && !alone(o.bot, empty) {
		o.reset(o.here(), members...)
	}
}

// here returns what the run's document has at the root.
func (o *output) here() json.RawMessage {
	here, _ := o.bot.env.Tube.Document(true).Get(o.bot.root)
	return here
}

// empty takes back all that is at the root, which is value.
func (o *output) empty(value json.RawMessage) {
	o.reset(value, o.root)
	if len(o.root) == 0 {
		o.send(tube.Event{Kind: tube.Set, URI: o.root, Value: []byte("{}")})
	}
}

// reset sets uris to null. Where clients do not see one of them, but may see strings below, these would go on growing: so they are
// set to null by themselves before.
func (o *output) reset(value json.RawMessage, uris ...[]byte) {
	set := func(uri []byte) { o.send(tube.Event{Kind: tube.Set, URI: uri, Value: null}) }
	for _, uri := range uris {
		if !o.bot.env.Tube.Hides(uri) {
			continue
		}
		p := jsonuri.NewParser(jsonuri.Handler{String: func(uri []byte, _ string) { set(uri) }}, replay(o.bot.root, value))
		_, _ = p.Write(value)
		break
	}
	for _, uri := range uris {
		set(uri)
	}
}

// emitValues gives the listeners the values of a document that stays, which they would have got while it came.
func (o *output) emitValues(value json.RawMessage) error {
	h := jsonuri.Handler{}
	o.listen(&h)
	if o.bot.config.Done {
		h.Done = o.done
	}
	p := jsonuri.NewParser(h, replay(o.bot.root, value))
	if _, err := p.Write(value); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	return o.failure
}

// replay are the options for parsing a document that was parsed before, which may have grown where it was mended.
func replay(root string, value json.RawMessage) *jsonuri.Options {
	return &jsonuri.Options{Root: root, MaxBytes: int64(len(value)) + 1, MaxKey: len(value) + 1, MaxNumber: len(value) + 1}
}
