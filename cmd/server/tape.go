package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
)

// tapeActions are what the command can do, with how many arguments each has at least and at most.
var tapeActions = map[string]struct{ least, most int }{
	"list": {0, 0}, "show": {1, 1}, "search": {2, 64}, "export": {1, 1}, "import": {1, 2}, "copy": {1, 1}, "delete": {1, 1}, "check": {0, 0},
}

// tapes is what "lingserve tape" works with.
type tapes struct {
	store     tape.Store
	workspace string
	json      bool
	limit     int
	stdout    io.Writer
	stderr    io.Writer
}

func tapeCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	set, settings := newFlags("tape")
	t := tapes{stdout: stdout, stderr: stderr}
	set.BoolVar(&t.json, "json", false, "print one JSON object per line")
	set.IntVar(&t.limit, "limit", 0, "print at most `N` lines; the default of search is 20")
	yes := set.Bool("yes", false, "confirm the deletion")
	rest, status, ok := arguments(set, args, stdout, stderr)
	names := []string{"list", "show", "search", "export", "import", "copy", "delete", "check"}
	switch {
	case !ok:
		return status
	case len(rest) == 0:
		return usage(stderr, "tape", "the action is missing; expected one of %s", strings.Join(names, ", "))
	case t.limit < 0:
		return usage(stderr, "tape", "--limit is %d; expected a number above 0", t.limit)
	}
	name, rest := rest[0], rest[1:]
	action, ok := tapeActions[name]
	switch {
	case !ok:
		return usage(stderr, "tape", "unknown action %q%s", name, didYouMean(name, names, ""))
	case name == "copy" && len(rest) == 0:
		return usage(stderr, "tape", "the database to copy from is missing, such as sqlite:data/lingserve.db")
	case len(rest) < action.least && len(rest) == 0:
		return usage(stderr, "tape", "the session is missing; \"lingserve tape list\" lists them")
	case len(rest) < action.least:
		return usage(stderr, "tape", "the words to search for are missing")
	case len(rest) > action.most:
		return usage(stderr, "tape", "unexpected argument %q", rest[action.most])
	case name == "delete" && !*yes:
		return usage(stderr, "tape", "a deleted session cannot be restored; confirm with --yes")
	}
	c, err := config.Load(settings, os.Environ())
	if err != nil {
		return fail(stderr, err)
	}
	if err := checkDurable(c); err != nil {
		return fail(stderr, err)
	}
	t.workspace = c.Workspace
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !c.Replicas() && name != "import" && name != "copy" && name != "delete" { // two create it, and channels keep what has no tape
		if _, err := os.Stat(c.DatabaseFile()); errors.Is(err, fs.ErrNotExist) {
			if name == "list" || name == "check" {
				t.none(c)
				return exitOK
			}
			return fail(stderr, fmt.Errorf("unknown session %s in %s", show(rest[0]), c.DatabaseName()))
		}
	}
	code := exitOK
	err = withStore(ctx, c, stderr, func(store tape.Store, shared *replicas) (err error) {
		t.store = store
		if name == "check" {
			code, err = t.check(ctx)
			return err
		}
		return t.do(ctx, c, shared, name, rest, stdin)
	})
	switch {
	case err == nil:
		return code
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE): // head has seen enough
		return exitFailed
	}
	return max(code, fail(stderr, err))
}

// withStore opens the store of sessions for a command, and closes it. Its own errors are for the user.
func withStore(ctx context.Context, c *config.Config, stderr io.Writer, do func(tape.Store, *replicas) error) error {
	quiet := slog.New(slog.DiscardHandler) // what goes wrong with the database is in the error
	shared, err := joinReplicas(ctx, c, quiet)
	if err != nil {
		return err
	}
	defer shared.close(quiet)
	store, err := openStore(c, shared, newLog(stderr, c), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(store, shared), store.Close())
}

// do does what the action name says.
func (t *tapes) do(ctx context.Context, c *config.Config, shared *replicas, name string, args []string, stdin io.Reader) error {
	switch name {
	case "list":
		some, err := t.list(ctx)
		if err == nil && !some {
			t.none(c)
		}
		return err
	case "copy":
		return t.copyFrom(ctx, c, shared, args[0])
	case "import":
		return t.fill(ctx, args, stdin)
	}
	found, err := t.find(ctx, args[0])
	if err != nil && name == "delete" { // a group that was never answered has no tape
		if waited, failed := eraseFromChannels(ctx, c, args[0], newLog(t.stderr, c)); waited || failed != nil {
			return failed
		}
	}
	if err != nil {
		return err
	}
	switch name {
	case "show":
		return t.show(ctx, found)
	case "search":
		return t.search(ctx, found, strings.Join(args[1:], " "))
	case "export":
		return found.Export(ctx, t.stdout)
	}
	return found.DeleteWithForks(ctx, func(one *tape.Tape) error {
		if one != found {
			fmt.Fprintf(t.stdout, "also deleting its fork %s\n", show(one.Session()))
		}
		_, err := eraseFromChannels(ctx, c, one.Session(), newLog(t.stderr, c))
		return err
	})
}

// show is a name that somebody wrote, for the terminal.
func show(name string) string { return fmt.Sprintf("%q", textview.Clean(name)) }

// find finds a session: the one of the workspace, or else the only one of this id.
func (t *tapes) find(ctx context.Context, id string) (*tape.Tape, error) {
	found, err := tape.Lookup(ctx, t.store, t.workspace, id)
	switch {
	case errors.Is(err, tape.ErrInvalid):
		return nil, fmt.Errorf("%s is not a valid session id: %s", show(id), strings.TrimPrefix(err.Error(), tape.ErrInvalid.Error()+": "))
	case !errors.Is(err, tape.ErrNotFound):
		return found, err
	}
	var workspaces []string
	for in, err := range t.store.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return nil, err
		}
		if in.Session == id {
			workspaces = append(workspaces, in.Workspace)
		}
	}
	switch len(workspaces) {
	case 0:
		return nil, fmt.Errorf("unknown session %s; \"lingserve tape list\" lists the sessions", show(id))
	case 1:
		return tape.Lookup(ctx, t.store, workspaces[0], id)
	}
	slices.Sort(workspaces)
	return nil, fmt.Errorf("several sessions are named %s; choose one with --workspace, one of %s", show(id), textview.Clean(strings.Join(workspaces, ", ")))
}

// none says for people that a list is empty, and where was looked: often it is the wrong folder.
func (t *tapes) none(c *config.Config) {
	if !t.json {
		fmt.Fprintf(t.stderr, "there are no sessions in %s\n", c.DatabaseName())
	}
}

// sessionRow is a session in the list.
type sessionRow struct {
	Session   string    `json:"session"`
	Tape      string    `json:"tape"`
	Workspace string    `json:"workspace"`
	Title     string    `json:"title"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Entries   int64     `json:"entries"`
	Anchors   int64     `json:"anchors"`
	Bytes     int64     `json:"bytes"`
}

// list prints the sessions, and reports whether there are any.
func (t *tapes) list(ctx context.Context) (some bool, err error) {
	out := newListing(t.stdout, t.json, "SESSION", "LAST USED", "ENTRIES", "TITLE")
	shown := 0
	for in, err := range t.store.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return shown > 0, err
		}
		if t.limit > 0 && shown == t.limit {
			break
		}
		shown++
		row := sessionRow{in.Session, in.Tape, in.Workspace, in.Title, in.Created, in.Updated, in.Entries, in.Anchors, in.Bytes}
		out.add(row, oneLine(in.Session, 40), in.Updated.Local().Format(time.DateTime), strconv.FormatInt(in.Entries, 10), oneLine(in.Title, 60))
	}
	if shown == 0 {
		return false, nil
	}
	return true, out.end()
}

// show prints the entries of a tape.
func (t *tapes) show(ctx context.Context, of *tape.Tape) error {
	if t.json && t.limit == 0 {
		return of.Export(ctx, t.stdout)
	}
	for e, err := range of.Read(ctx, tape.Query{Limit: t.limit}) {
		if err != nil {
			return err
		}
		if t.json {
			_, err = t.stdout.Write(append(e.AppendJSON(nil), '\n'))
		} else {
			err = t.line(e.ID, e.Date, e.Kind, summary(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// search prints what was found.
func (t *tapes) search(ctx context.Context, in *tape.Tape, words string) error {
	for hit, err := range in.Search(ctx, tape.Query{Text: words, Limit: t.limit}) {
		if errors.Is(err, tape.ErrInvalid) {
			return errors.New("expected at least one word to search for")
		}
		if err != nil {
			return err
		}
		if t.json {
			err = printJSON(t.stdout, struct {
				ID   int64     `json:"id"`
				Kind tape.Kind `json:"kind"`
				Date time.Time `json:"date"`
				Text string    `json:"text"`
			}{hit.ID, hit.Kind, hit.Date, hit.Text})
		} else {
			err = t.line(hit.ID, hit.Date, hit.Kind, hit.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line prints an entry for people: kinds are mostly of one width, so nothing has to be held back to find the columns.
func (t *tapes) line(id int64, date time.Time, kind tape.Kind, text string) error {
	_, err := fmt.Fprintf(t.stdout, "%5d  %s  %-11s  %s\n", id, date.Local().Format(time.DateTime), oneLine(string(kind), 20), oneLine(text, 100))
	return err
}

// fill makes a session of an export.
func (t *tapes) fill(ctx context.Context, args []string, stdin io.Reader) error {
	from := stdin
	if len(args) == 2 {
		f, err := os.Open(args[1])
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", show(args[1]), cmp.Or(errors.Unwrap(err), err))
		}
		defer f.Close()
		from = f
	}
	err := tape.Import(ctx, t.store, t.workspace, args[0], from)
	if errors.Is(err, tape.ErrNotEmpty) {
		return fmt.Errorf("the session %s already exists; choose another name", show(args[0]))
	}
	if errors.Is(err, tape.ErrInvalid) {
		return errors.New(strings.Replace(err.Error(), tape.ErrInvalid.Error()+": ", "", 1)) // behind the line's number
	}
	return err
}

// oneLine is a text on one line, without what would steer the terminal, and not longer than so many characters.
func oneLine(text string, most int) string {
	return wording.ClipChars(strings.Join(strings.Fields(textview.Clean(text)), " "), most)
}

// summary is what an entry says, in a few words.
func summary(e tape.Entry) string {
	var p struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Name    string          `json:"name"`
		State   json.RawMessage `json:"state"`
		Data    json.RawMessage `json:"data"`
		Kind    string          `json:"kind"`
		Message string          `json:"message"`
		Calls   []tape.Call     `json:"calls"`
		Results []any           `json:"results"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return string(e.Payload)
	}
	switch e.Kind {
	case tape.KindMessage:
		return p.Role + ": " + wordsFirst(plain(p.Content), tape.MetaOf(e).Title)
	case tape.KindSystem, tape.KindReasoning:
		return plain(p.Content)
	case tape.KindAnchor:
		return p.Name + " " + string(p.State)
	case tape.KindEvent:
		return p.Name + " " + string(p.Data)
	case tape.KindError:
		return p.Kind + ": " + p.Message
	case tape.KindToolCall:
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, c.Function.Name+"("+c.Function.Arguments+")")
		}
		return strings.TrimSpace(plain(p.Content) + " " + strings.Join(calls, ", "))
	case tape.KindToolResult:
		var results []string
		for _, r := range p.Results {
			if text, ok := r.(string); ok {
				results = append(results, text)
			} else if text, err := json.Marshal(r); err == nil {
				results = append(results, string(text))
			}
		}
		return strings.Join(results, ", ")
	}
	return string(e.Payload)
}

// wordsFirst moves what stands before a person's words, which is said of the message and is long, behind them. title is the beginning of these
// words, on one line; "" where nothing stands before them.
func wordsFirst(text, title string) string {
	text = strings.Join(strings.Fields(text), " ")
	if at := strings.LastIndex(text, title); title != "" && at > 0 {
		return text[at:] + " | " + strings.TrimSpace(text[:at])
	}
	return text
}

// plain is the text of a content: a string, or the texts of its parts.
func plain(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	var all []string
	for _, p := range parts {
		if p.Text == "" {
			p.Text = "[" + p.Type + "]"
		}
		all = append(all, p.Text)
	}
	return strings.Join(all, " ")
}

// copyFrom copies the sessions of another database, with their large results. Sessions that are there already are left as they are, so that a copy
// that was interrupted goes on when it is started again.
func (t *tapes) copyFrom(ctx context.Context, c *config.Config, shared *replicas, from string) (err error) {
	other := *c
	other.Database = from
	if err := config.CheckDatabase(from); err != nil {
		return err
	}
	if from == c.Database || from == config.InMemory {
		return fmt.Errorf("cannot copy from %s to %s; choose the target with --database", other.DatabaseName(), c.DatabaseName())
	}
	if _, err := os.Stat(other.DatabaseFile()); !other.Replicas() && err != nil {
		return fmt.Errorf("cannot copy from %s: %w", other.DatabaseName(), err)
	}
	source, err := openStore(&other, nil, newLog(t.stderr, c), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var sessions []tape.Info // before the first is copied, since a store need not list while it is written to
	for in, err := range source.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return err
		}
		sessions = append(sessions, in)
	}
	copied, there := 0, 0
	for _, in := range slices.Backward(sessions) { // the one that was used last comes last
		_, err := tape.Copy(ctx, source, in, t.store)
		switch {
		case errors.Is(err, tape.ErrNotEmpty):
			there++
		case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrDeleted): // erased meanwhile
		case err != nil:
			return fmt.Errorf("copied %d of %d sessions; session %s: %w; repeat the command to continue", copied+there, len(sessions), show(in.Session), err)
		default:
			copied++
		}
	}
	fmt.Fprintf(t.stdout, "copied %d sessions, skipped %d existing ones\n", copied, there)
	return nil
}
