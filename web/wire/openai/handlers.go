package openai

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Handlers answer the requests of this wire.
type Handlers struct{ *wire.Server }

// PostCompletion answers a chat completion: an agent, a workflow or a model takes the place of OpenAI's model.
func (h Handlers) PostCompletion(w http.ResponseWriter, r *http.Request) *wire.Problem {
	c, q, p := wire.ReadStart(h.Server, w, r, nil, Read)
	if p != nil {
		return p
	}
	if p := h.fill(q, wire.Who(r), c); p != nil {
		return p
	}
	q.Unattended = true      // a client that waits for a completion cannot be asked anything
	q.Attached = q.Key == "" // the client can come back to the run only by its key
	of, _, p := h.Start(w, r, q)
	if p != nil {
		return p.Move(c.move)
	}
	wire.SetRun(w.Header(), of.ID)
	w.Header().Set("X-Request-Id", of.ID)
	head := Head{ID: of.ID, Model: c.Model, Created: of.Began.Unix()}
	v := &wire.View{Format: frame.SSE, Kind: wire.StreamOpenAI, CancelOnDisconnect: q.Attached}
	if !c.Stream {
		return h.complete(w, r, of, v, head)
	}
	v.Begin = func() (frame.Encoder, *tube.Reader) {
		return NewStream(head, c.Usage, h.shapeOf(q), func() End {
			o, _, _ := of.Result()
			return endOf(of, o)
		}), of.Events()
	}
	// After KeepAlive, the client needs a sign that the connection lives.
	if p := h.AwaitOutput(r, of, v, h.KeepAlive, true); p != nil {
		return p
	}
	h.Stream(w, r, of, v)
	return nil
}

// shapeOf is what is known of the document of a run before it begins.
func (h Handlers) shapeOf(q *run.Request) Shape {
	if q.Completion != nil {
		return Shape{Text: !q.Completion.JSON}
	}
	if q.Workflow == "" && h.ByWorkflow(q.Agent) == "" {
		return Shape{Text: true}
	}
	return Shape{Roots: h.Roots(q.Subject)}
}

// fill makes a run's request of a completion: what its model names, with the messages as that takes them.
func (h Handlers) fill(q *run.Request, p access.Principal, c *Request) *wire.Problem {
	q.Options, q.Done = c.Options, true
	of, ok := h.Target(p, c.Model)
	if !ok {
		if _, err := h.Models.Model(c.Model); err != nil || !strings.Contains(c.Model, ":") || !p.Runs("") {
			return noModel(c.Model)
		}
		if why := h.Runs.CheckModel(c.Model); why != "" {
			return modelProblem(why)
		}
		q.Model, q.Strict, q.History = c.Model, c.Strict, c.Messages
		q.Completion = &run.Completion{JSON: c.JSON, Schema: c.Schema, SchemaName: c.SchemaName}
		return nil
	}
	q.Subject = of
	if c.Schema != nil || c.JSON && q.Agent != "" && h.ByWorkflow(q.Agent) == "" {
		return wire.Invalid(run.Field{Pointer: "/response_format", Detail: "agents answer with text, and workflows with a document of their own schema; " +
			"remove this, or use a model"})
	}
	if c.Session != "" && h.Remembers(p) { // these clients send the whole conversation, which serves callers without sessions
		q.Session = c.Session
	}
	instructions, before, now, problem := c.Conversation()
	if problem != nil {
		return problem
	}
	q.Instructions, q.History = instructions, before
	text := now.Content
	if len(now.Parts) > 0 {
		var texts []string
		for _, p := range now.Parts {
			if p.Type == "text" {
				texts = append(texts, p.Text)
			} else {
				q.Files = append(q.Files, p)
			}
		}
		text = strings.Join(texts, "\n")
	}
	q.Input = h.Input(q, text)
	return nil
}

// noModel is the problem of a name that is none.
func noModel(name string) *wire.Problem {
	return modelProblem("unknown agent, workflow or model " + wording.Quote(name) + "; GET /v1/models lists them")
}

func modelProblem(detail string) *wire.Problem {
	p := wire.NewProblem(wire.CodeNotFound, detail)
	p.Code, p.Errors = "model_not_found", []run.Field{{Pointer: "/model", Detail: detail}}
	return p
}

// WriteProblem answers with a problem in OpenAI's form. Every answer has an id to ask for.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) {
	if p.Run != "" {
		wire.SetRun(w.Header(), p.Run)
	}
	w.Header().Set("X-Request-Id", cmp.Or(p.ID, p.Run, w.Header().Get("X-Request-Id"), run.NewID()))
	p.Head(w, "application/json")
	_, _ = w.Write(append(rawjson.MustMarshal(errorOf(p)), '\n')) // the client may have gone away
}

// move turns a place in a run's request into one of a completion's.
func (c *Request) move(f *run.Field) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	switch name {
	case "options":
		name = rest
	case "input":
		name = "messages"
		if rest != "" {
			f.Detail = rest + ": " + f.Detail
		}
		f.Detail = "the last message is invalid: " + f.Detail
	case "session":
		name = cmp.Or(c.SessionParam, "user")
	}
	f.Pointer = "/" + name
}

// endOf returns how a run ended, or for a run that continues, how it would end now.
func endOf(of *run.Run, o run.Result) End {
	end := End{Finish: Stop}
	for _, u := range o.Usage {
		end.Usage.Add(u)
	}
	if o.Truncated {
		end.Finish = Length
	}
	if p := wire.OfEnd(of, o); p != nil {
		end.Err = errorOf(p)
	}
	if cause, ok := o.Cause(); ok && o.Status == run.StatusFailed {
		switch {
		case cause.Filtered:
			end.Finish, end.Err = ContentFilter, nil
		case o.Truncated && cause.Code == wire.CodeOutput: // a strict answer that was cut off: clients know it by its finish
			end.Finish, end.Err = Length, nil
		}
	}
	return end
}

// silence is how long an answer that is not streamed may take before empty lines keep its connection open. From then on the status is
// 200, and a failure can only break the connection off; so the lines begin as late as the timeouts of proxies allow.
const silence = 30 * time.Second

// complete waits for the run's end and answers with one completion.
func (h Handlers) complete(w http.ResponseWriter, r *http.Request, run *run.Run, v *wire.View, head Head) *wire.Problem {
	f, r := h.Follow(w, r, run, wire.StreamJSON)
	defer f.Over(nil)
	out, begun := h.NewOutput(w, r), false
	_, p := h.Await(r, run, v, max(silence, h.KeepAlive), func() bool {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Accel-Buffering", "no")
			w.WriteHeader(http.StatusOK)
		}
		_, err := out.Write([]byte("\n"))
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			f.Broken(out, run, v, err)
		}
		return true
	})
	if p != nil { // the run has moved: the client comes back
		panic(http.ErrAbortHandler)
	}
	f.Complete()
	o, document, reserved := run.Result()
	end := endOf(run, o)
	switch {
	case end.Err != nil && begun:
		// No client looks for an error in the body of a 200.
		h.Log.DebugContext(run.Context(), "connection broken off, because the run failed after the status was sent", "run", run.ID, "code", end.Err.Code)
		panic(http.ErrAbortHandler)
	case end.Err != nil:
		return wire.OfEnd(run, o)
	}
	if wire.IsEmpty(document) && run.Of.Agent != "" {
		document = []byte(`""`)
	}
	body := Completion(head, document, reserved, end)
	if !begun {
		h.Send(w, r, http.StatusOK, "application/json", body)
	} else if _, err := out.Write(body); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
