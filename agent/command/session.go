package command

import (
	"context"
	"time"
)

// Session is what commands need of an agent: the session in which one was written, on behalf of the person who wrote it. An
// error that this person may read is an [*Error].
type Session interface {
	Info(ctx context.Context) (Info, error)
	// Anchors are the last so many, newest first.
	Anchors(ctx context.Context, limit int) ([]Anchor, error)
	// Handoff writes an anchor and returns its entry's id.
	Handoff(ctx context.Context, name, summary string) (id int64, err error)
	// Search finds entries, newest first.
	Search(ctx context.Context, query string, limit int) ([]Hit, error)

	// Model says which model answers, and which others may be chosen.
	Model(ctx context.Context) (now string, others []string, err error)
	SetModel(ctx context.Context, name string) error
	Tools(ctx context.Context) ([]Tool, error)
	Skills(ctx context.Context) ([]Skill, error)
	// Skill is the text of a skill.
	Skill(ctx context.Context, name string) (string, error)
	Servers(ctx context.Context) ([]Server, error)

	// Remembered are the tools that were approved for the session. AskAgain forgets that of one.
	Remembered(ctx context.Context) ([]string, error)
	AskAgain(ctx context.Context, tool string) error

	// Stop ends the running turn and those that wait, and says how many these were.
	Stop(ctx context.Context) (turns int, err error)
	// Decide answers a question for approval. It is an error if this person may not, or if the question does not wait.
	Decide(ctx context.Context, d Decision) error

	// Fork makes a session of the entries up to an id, 0 for all, and returns its id.
	Fork(ctx context.Context, at int64) (session string, err error)
	Export(ctx context.Context) (Exported, error)
	// Forget erases the session and its forks. Nobody is asked again.
	Forget(ctx context.Context) error
}

// Info says how a session stands.
type Info struct {
	Session    string
	Tape       string
	Model      string
	Entries    int64
	Anchors    int64
	LastAnchor string // its name; "" where there is none
	Since      int64  // entries behind it
	Tokens     int64  // that the last turn used; 0 where nobody has counted
	Cost       int64  // in millionths of a dollar, of all turns so far; 0 where it is not known
	Created    time.Time
	Active     time.Time
}

// Anchor is one on the tape.
type Anchor struct {
	ID   int64
	Name string
	Date time.Time
}

// Hit is an entry that was found.
type Hit struct {
	ID      int64
	Kind    string
	Date    time.Time
	Excerpt string
}

// Tool is one that the agent may call.
type Tool struct {
	Name, Description string
	Asks              bool // before each call
}

// Skill is one that the agent may read.
type Skill struct{ Name, Description string }

// Server is an MCP server.
type Server struct {
	Name  string
	State string // "connected", or why it is not: a word or two that users may read
	Tools int
}

// Decision answers a question for approval.
type Decision struct {
	ID       string // of the question
	Approve  bool
	Reason   string
	Remember bool // for the rest of the session
}

// Exported says where a tape was written to.
type Exported struct {
	Name    string // of the file, in the folder for exports
	Entries int64
	Bytes   int64
}
