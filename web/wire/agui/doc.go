// Package agui is the wire of AG-UI 1.0, the protocol of front ends such as CopilotKit. Its handlers start, resume and rejoin runs; its
// codec reads the clients' inputs, and writes a run's events as theirs.
//
// The run's document is the client's state: a snapshot of it, then JSON Patches (RFC 6902). What an agent says, and what bots
// write that write text, are text messages as well; what they think are reasoning messages, and the calls of tools are calls of
// tools. Everything else is an event of the type CUSTOM, with the name of the run's event.
//
// # Guarantees
//   - The state that a client has at the end is the run's document, however its writing was cut into events. An agent whose document is
//     a text leaves the state as it is.
//   - The first event opens the run and the last one ends it; all messages, calls and steps are closed by then.
//   - What is sent is linear in what the run has sent. A JSON Patch cannot append to a string, so one that grows is sent again
//     only when it has grown by an eighth, when it is complete, and at the end. An array is sent again when it gets a gap.
//   - No event is larger than clients take: the state of a larger document is not sent on, and an event "too_large" says so.
package agui

// Version is the version of the protocol that this package speaks.
const Version = "1.0"

// Types of events, as far as they are written here.
const (
	runStarted       = "RUN_STARTED"
	runFinished      = "RUN_FINISHED"
	runError         = "RUN_ERROR"
	stepStarted      = "STEP_STARTED"
	stepFinished     = "STEP_FINISHED"
	textStart        = "TEXT_MESSAGE_START"
	textContent      = "TEXT_MESSAGE_CONTENT"
	textEnd          = "TEXT_MESSAGE_END"
	reasoningStart   = "REASONING_START"
	reasoningOpen    = "REASONING_MESSAGE_START"
	reasoningContent = "REASONING_MESSAGE_CONTENT"
	reasoningClose   = "REASONING_MESSAGE_END"
	reasoningEnd     = "REASONING_END"
	callStart        = "TOOL_CALL_START"
	callArgs         = "TOOL_CALL_ARGS"
	callEnd          = "TOOL_CALL_END"
	callResult       = "TOOL_CALL_RESULT"
	stateSnapshot    = "STATE_SNAPSHOT"
	stateDelta       = "STATE_DELTA"
	messagesSnapshot = "MESSAGES_SNAPSHOT"
	custom           = "CUSTOM"
)

// maxValue bounds one value in an event, in bytes: clients give up where more than 10 MiB have no end. Only tests change it.
var maxValue = 6 << 20
