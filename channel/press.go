package channel

import "context"

// Press is what someone does with a button of a question for approval: it answers the question.
type Press struct {
	ID       string // of the question
	Approve  bool
	Remember bool // also approve later calls of the tool in this session
}

// Labels of the buttons.
const (
	LabelApprove  = "Approve"
	LabelRemember = "Approve for this session"
	LabelDeny     = "Deny"
)

// Buttons are the presses that a question offers, with their labels and the words that channels put into buttons.
func (q *Question) Buttons() []Button {
	return []Button{
		{LabelApprove, "approve", Press{q.ID, true, false}},
		{LabelDeny, "deny", Press{q.ID, false, false}},
		{LabelRemember, "remember", Press{q.ID, true, true}},
	}
}

// Button is one of a question.
type Button struct {
	Label, Word string
	Press       Press
}

// ReadPress is the press of the button with a word; ok is false if it is missing.
func ReadPress(word, id string) (p Press, ok bool) {
	for _, b := range (&Question{ID: id}).Buttons() {
		if b.Word == word && id != "" {
			return b.Press, true
		}
	}
	return p, false
}

// Command is the command that a press stands for. The gates let in those who may give it.
func (p Press) Command() string {
	switch {
	case p.Remember:
		return ",approve " + p.ID + " remember=session"
	case p.Approve:
		return ",approve " + p.ID
	}
	return ",deny " + p.ID
}

// Decider is an [Agent] that takes presses.
type Decider interface {
	Decide(context.Context, *Turn, Press) Pressed
}

// Pressed is what became of a press, as the person who pressed reads it.
type Pressed string

// The states.
const (
	PressRefused Pressed = "You may not answer this question."
	PressTooLow  Pressed = "You may not answer this question: your role may not approve this tool; ask an operator or admin."
	PressTooMany Pressed = "You sent too many messages at once. Try again in a minute."
	PressOver    Pressed = "This question was already answered, or its time is over."
	// PressUnknown means no such question waits in the session: its turn is over, or a crash has ended it.
	PressUnknown    Pressed = "This question is no longer open."
	PressApproved   Pressed = "Approved."
	PressRemembered Pressed = "Approved for this session."
	PressDenied     Pressed = "Denied."
)

// Decides reports whether the press has decided the question.
func (s Pressed) Decides() bool {
	return s == PressApproved || s == PressRemembered || s == PressDenied
}

// Text is the answer for the person who pressed.
func (s Pressed) Text() string { return string(s) }

// RefusedPress returns the answer to a press that the gates do not let in; ok is false if it was let in, came before, runs again, or is no press
// of a question's button.
func RefusedPress(r Result) (s Pressed, ok bool) {
	switch r.Admission.Reason {
	case ReasonDedupe, ReasonMerged, ReasonDraining, ReasonOverloaded, ReasonNotATurn:
		return s, false
	case ReasonRateLimited:
		return PressTooMany, true
	}
	return PressRefused, r.Admission.Stops()
}
