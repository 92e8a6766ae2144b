// Package turn runs what happens between a message and its reply, as stages that plugins fill by hooks, one turn of a session
// at a time.
//
// A *turn* is one envelope in and zero or more envelopes out, in these stages:
//
//	resolve_session    whose turn it is                        the first plugin that accepts decides
//	load_state         what the turn knows                     every plugin; later registered ones win
//	build_prompt       what the model is asked                 the first plugin that accepts decides
//	run_model          the model, with or without streaming    the first plugin that accepts decides
//	save_state         what is kept; after failures too        every plugin
//	render_outbound    which envelopes go out                  every plugin
//	dispatch_outbound  the sending of each                     every plugin
//
// A *plugin* is any value that implements one of the hooks, which are interfaces of one method: [SessionResolver],
// [StateLoader] and so on. A plugin registered later is asked earlier, in every stage. A hook that decides alone returns
// (value, ok, error): ok false declines, and declining is not the same as accepting an empty value.
//
// [Framework.Process] runs one turn; [Framework.Submit] runs it in the *lane* of its session, behind or instead of the turn that
// runs there.
//
// # Guarantees
//   - save_state runs once whenever load_state has begun: after failures, panics and cancellations too.
//   - A hook's error reaches the caller as it is, inside a [*StageError]; no later error hides it, and no observer changes it.
//   - A panic of a hook, or of a stream that it made, is an error of its stage and ends nothing else.
//   - A stream is closed, and its deferred work done, before the next stage begins.
//   - At most one turn of a session runs in the process, and in all processes on one store that offers leases.
//   - What waits is bounded, and a session without work has no goroutine, no timer and no memory.
package turn
