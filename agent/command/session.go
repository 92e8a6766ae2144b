package command

import (
	"context"

	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
)

// Session is the session in which a command was written, on behalf of the person who wrote it. An error that this person may read
// is an [*Error].
type Session interface {
	// Tape returns the session's tape. create creates a missing one; without create that is an [*Error].
	Tape(ctx context.Context, create bool) (*tape.Tape, error)
	// Usage returns the tokens of the last turn, and the cost of all turns in millionths of a dollar; 0 if they are not known.
	Usage(ctx context.Context) (tokens, cost int64, err error)

	// Model returns the model that answers, and the others that may be chosen.
	Model(ctx context.Context) (now string, others []string, err error)
	SetModel(ctx context.Context, name string) error
	Tools() []*tool.Tool
	Skills() *skill.Library // nil for none
	Servers(ctx context.Context) ([]Server, error)

	// Remembered returns the tools that were approved for the session. RevokeApproval removes the approval of one.
	Remembered(ctx context.Context) ([]string, error)
	RevokeApproval(ctx context.Context, tool string) error

	// Stop ends the running turn and those that wait, and returns how many these were.
	Stop() (turns int)
	// Decide answers a question for approval. It is an error if this person may not, or if the question does not wait.
	Decide(ctx context.Context, d Decision) error
	// Export writes the tape to a file.
	Export(ctx context.Context) (Exported, error)
}

// Server is an MCP server.
type Server struct {
	Name  string
	State string // "connected", or the reason why it is not: a word or two that users may read
	Tools int
}

// Decision answers a question for approval.
type Decision struct {
	ID       string // of the question
	Approve  bool
	Reason   string
	Remember bool // for the rest of the session
}

// Exported is the file that a tape was written to.
type Exported struct {
	Name    string // of the file, in the folder for exports
	Entries int64
	Bytes   int64
}
