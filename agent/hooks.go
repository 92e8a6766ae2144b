package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Reply is what a model has answered in one step.
type Reply struct {
	Text      string
	Reasoning string
	Calls     []tool.Call // that the loop is to run
	Finish    string      // why it ended, one of the adapter's words
	Model     string      // "provider:name"
}

// Verdict is what a [BeforeTool] hook makes of a call. The zero value lets it run as it is.
type Verdict struct {
	Arguments json.RawMessage // in place of the model's; nil leaves them
	Answer    *tool.Result    // in place of running the tool
	Deny      string          // says no, for this reason
}

// The hooks of the loop. A plugin of the turn that has one is registered like any other; the one that is registered last comes
// first. Each is by itself: what a hook that fails or panics has changed is dropped, and the others run. The exception is
// [BeforeTool], which may be there to guard: where it fails, the call is denied.
type (
	// BeforeModel may change a request before the model gets it, or answer with a text in the model's place: then the hooks that come
	// later are not asked.
	BeforeModel interface {
		BeforeModel(context.Context, *adapter.Request, turn.State) (*Reply, error)
	}
	// AfterModel sees a model's reply before its calls are run and it goes to the tape. What it changes in the text and the reasoning is
	// what the tape gets; what was streamed was streamed before. Calls are changed by [BeforeTool].
	AfterModel interface {
		AfterModel(context.Context, *Reply, turn.State) error
	}
	// BeforeTool sees a call before it is held to the tool's schema, and before anybody is asked for approval.
	BeforeTool interface {
		BeforeTool(context.Context, *tool.Tool, tool.Call) (Verdict, error)
	}
	// AfterTool may change what came of a call.
	AfterTool interface {
		AfterTool(context.Context, *tool.Tool, tool.Call, tool.Result) (tool.Result, error)
	}
)

// call calls a hook. Its error, or its panic, is logged and returned.
func (a *Agent) call(ctx context.Context, hook, plugin string, f func() error) (err error) {
	attrs := []slog.Attr{slog.String("hook", hook), slog.String("plugin", plugin)}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			attrs = append(attrs, slog.String("stack", string(debug.Stack())))
		}
		if err != nil {
			a.log.LogAttrs(ctx, slog.LevelError, "hook failed", append(attrs, slog.Any("error", adapter.RedactError(err)))...)
		}
	}()
	return f()
}

// change returns what a hook made of a value. A hook that fails or panics changes nothing.
func change[V any](ctx context.Context, a *Agent, hook, plugin string, value V, f func(V) (V, error)) V {
	changed := value
	err := a.call(ctx, hook, plugin, func() (err error) {
		changed, err = f(value)
		return err
	})
	if err != nil {
		return value
	}
	return changed
}

// beforeModel lets hooks change the request, or answer it.
func (r *run) beforeModel(req *adapter.Request) (answer *Reply) {
	for _, h := range turn.PluginsOf[BeforeModel](r.turn) {
		*req = change(r.ctx, r.agent, "before_model", h.Name, *req, func(req adapter.Request) (adapter.Request, error) {
			req.Messages, req.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
			reply, err := h.Hook.BeforeModel(r.ctx, &req, r.state)
			if err == nil {
				answer = reply
			}
			return req, err
		})
		if answer != nil {
			return answer
		}
	}
	return nil
}

// afterModel lets hooks change the text of what the model has answered. Each gets calls that it may change without effect.
func (r *run) afterModel(rep *Reply) {
	calls := rep.Calls
	for _, h := range turn.PluginsOf[AfterModel](r.turn) {
		*rep = change(r.ctx, r.agent, "after_model", h.Name, *rep, func(rep Reply) (Reply, error) {
			rep.Calls = slices.Clone(calls)
			err := h.Hook.AfterModel(r.ctx, &rep, r.state)
			return rep, err
		})
	}
}

// beforeTool asks the hooks about a call: all of them, until one answers or denies.
func (a *Agent) beforeTool(ctx context.Context, t *tool.Tool, c tool.Call) (json.RawMessage, *tool.Result, error) {
	for _, h := range turn.PluginsOf[BeforeTool](runOf(ctx).turn) {
		var v Verdict
		shown := c
		shown.Arguments = slices.Clone(c.Arguments)
		err := a.call(ctx, "before_tool", h.Name, func() (err error) {
			v, err = h.Hook.BeforeTool(ctx, t, shown)
			return err
		})
		switch {
		case err != nil:
			return nil, nil, &tool.Error{Kind: tool.KindDenied, Message: "a check before the call failed"}
		case v.Deny != "":
			return nil, nil, &tool.Error{Kind: tool.KindDenied, Message: v.Deny}
		case v.Answer != nil:
			return c.Arguments, v.Answer, nil
		case v.Arguments != nil:
			c.Arguments = v.Arguments
		}
	}
	return c.Arguments, nil, nil
}

// afterTool lets the hooks change a result.
func (a *Agent) afterTool(ctx context.Context, t *tool.Tool, c tool.Call, result tool.Result) (tool.Result, error) {
	for _, h := range turn.PluginsOf[AfterTool](runOf(ctx).turn) {
		result = change(ctx, a, "after_tool", h.Name, result, func(result tool.Result) (tool.Result, error) {
			return h.Hook.AfterTool(ctx, t, c, result)
		})
	}
	return result, nil
}
