package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
)

// tapes is what "lingserve tape" works with.
type tapes struct {
	streams
	settings config.Flags
	c        *config.Config
	database *database
	store    tape.Store
	json     bool
	limit    int
	yes      bool
}

func tapeCommand(s streams) *cobra.Command {
	t := &tapes{streams: s}
	show := t.ofSession("tape show", t.show)
	search := t.ofSession("tape search", t.search)
	remove := t.withStore("tape delete", openDurable, t.delete)
	remove.PreRunE = func(*cobra.Command, []string) error {
		if !t.yes {
			return usagef("a deleted session cannot be restored; confirm with --yes")
		}
		return nil
	}
	remove.Flags().BoolVar(&t.yes, "yes", false, "confirm the deletion")
	list := t.withStore("tape list", openExisting, t.list)
	for _, cmd := range []*cobra.Command{list, show, search} {
		cmd.Flags().IntVar(&t.limit, "limit", 0, "print at most `N` lines; the default of search is 20")
		cmd.PreRunE = func(*cobra.Command, []string) error {
			if t.limit < 0 {
				return usagef("--limit is %d; expected a number above 0", t.limit)
			}
			return nil
		}
	}
	cmd := newCommand("tape", nil, list, show, search,
		t.ofSession("tape export", func(ctx context.Context, of *tape.Tape, _ []string) error { return of.Export(ctx, t.out) }),
		t.withStore("tape import", openDurable, t.importSession),
		t.withStore("tape copy", openDurable, t.copyFrom),
		remove,
	)
	cmd.PersistentFlags().BoolVar(&t.json, "json", false, "print one JSON object per line")
	addSettings(cmd.PersistentFlags(), &t.settings)
	return cmd
}

// tapeAction is what an action does with the store.
type tapeAction func(ctx context.Context, args []string) error

// withStore returns a command that opens the store of sessions.
func (t *tapes) withStore(path string, open opener, do tapeAction) *cobra.Command {
	return withDatabase(path, &t.settings, open, func(ctx context.Context, d *database, args []string) error {
		t.c, t.database = d.c, d
		quiet := slog.New(slog.DiscardHandler) // the error says what is wrong with the database
		shared, err := joinReplicas(ctx, d.c, d, quiet)
		if err != nil {
			return err
		}
		defer shared.close(quiet)
		t.store = d.tapes(shared, nil)
		return errors.Join(do(ctx, args), t.store.Close())
	})
}

// ofSession returns a command about the session that the first argument names. Its action gets the other arguments.
func (t *tapes) ofSession(path string, do func(ctx context.Context, of *tape.Tape, args []string) error) *cobra.Command {
	return t.withStore(path, openExisting, func(ctx context.Context, args []string) error {
		found, err := t.find(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, found, args[1:])
	})
}

// delete deletes a session with its forks, and what channels store of them.
func (t *tapes) delete(ctx context.Context, args []string) error {
	found, err := t.find(ctx, args[0])
	if err != nil { // a group without an answer has no tape
		if waited, failed := eraseFromChannels(ctx, t.c, t.database, args[0], newLog(t.err, t.c)); waited || failed != nil {
			return failed
		}
		return err
	}
	return found.DeleteWithForks(ctx, func(one *tape.Tape) error {
		if one != found {
			fmt.Fprintf(t.out, "also deleting its fork %s\n", show(one.Session()))
		}
		_, err := eraseFromChannels(ctx, t.c, t.database, one.Session(), newLog(t.err, t.c))
		return err
	})
}

// show returns a name that a user has chosen, quoted for the terminal.
func show(name string) string { return fmt.Sprintf("%q", textview.Clean(name)) }

// find finds a session: the one of the workspace, or else the only one of this id.
func (t *tapes) find(ctx context.Context, id string) (*tape.Tape, error) {
	found, err := tape.Lookup(ctx, t.store, t.c.Workspace, id)
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

// list prints the sessions.
func (t *tapes) list(ctx context.Context, _ []string) error {
	out := newListing(t.out, t.json, "SESSION", "LAST USED", "ENTRIES", "TITLE")
	printed := 0
	for in, err := range t.store.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return err
		}
		if t.limit > 0 && printed == t.limit {
			break
		}
		printed++
		row := sessionRow{in.Session, in.Tape, in.Workspace, in.Title, in.Created, in.Updated, in.Entries, in.Anchors, in.Bytes}
		out.add(row, oneLine(in.Session, 40), in.Updated.Local().Format(time.DateTime), strconv.FormatInt(in.Entries, 10), oneLine(in.Title, 60))
	}
	if printed == 0 && !t.json { // people often use the wrong folder
		fmt.Fprintf(t.err, "there are no sessions in %s\n", t.c.DatabaseName())
		return nil
	}
	return out.end()
}

// show prints the entries of a tape.
func (t *tapes) show(ctx context.Context, of *tape.Tape, _ []string) error {
	if t.json && t.limit == 0 {
		return of.Export(ctx, t.out)
	}
	for e, err := range of.Read(ctx, tape.Query{Limit: t.limit}) {
		if err != nil {
			return err
		}
		if t.json {
			_, err = t.out.Write(append(e.AppendJSON(nil), '\n'))
		} else {
			err = t.line(e.ID, e.Date, e.Kind, summary(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// search prints the entries that have all words.
func (t *tapes) search(ctx context.Context, in *tape.Tape, words []string) error {
	for hit, err := range in.Search(ctx, tape.Query{Text: strings.Join(words, " "), Limit: t.limit}) {
		if errors.Is(err, tape.ErrInvalid) {
			return errors.New("expected at least one word to search for")
		}
		if err != nil {
			return err
		}
		if t.json {
			err = printJSON(t.out, struct {
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

// line prints an entry for people. Kinds are mostly of one width, so the columns are fixed.
func (t *tapes) line(id int64, date time.Time, kind tape.Kind, text string) error {
	_, err := fmt.Fprintf(t.out, "%5d  %s  %-11s  %s\n", id, date.Local().Format(time.DateTime), oneLine(string(kind), 20), oneLine(text, 100))
	return err
}

// importSession creates a session from an export.
func (t *tapes) importSession(ctx context.Context, args []string) error {
	from := t.in
	if len(args) == 2 {
		f, err := os.Open(args[1])
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", show(args[1]), cmp.Or(errors.Unwrap(err), err))
		}
		defer f.Close()
		from = f
	}
	err := tape.Import(ctx, t.store, t.c.Workspace, args[0], from)
	if errors.Is(err, tape.ErrNotEmpty) {
		return fmt.Errorf("the session %s already exists; choose another name", show(args[0]))
	}
	if errors.Is(err, tape.ErrInvalid) {
		return errors.New(strings.Replace(err.Error(), tape.ErrInvalid.Error()+": ", "", 1)) // behind the line's number
	}
	return err
}

// oneLine returns a text on one line of at most so many characters, without escape sequences.
func oneLine(text string, most int) string {
	return wording.ClipChars(strings.Join(strings.Fields(textview.Clean(text)), " "), most)
}

// summary returns the content of an entry as text: a message, the calls of tools, or else the JSON of the entry.
func summary(e tape.Entry) string {
	p := tape.PayloadOf(e)
	if e.Kind == tape.KindMessage {
		return p.Role + ": " + wordsFirst(tape.TextOf(p.Content), tape.MetaOf(e).Title)
	}
	var calls []string
	for _, c := range p.ToolCalls() {
		calls = append(calls, c.Function.Name+"("+c.Function.Arguments+")")
	}
	return cmp.Or(strings.Join(calls, ", "), string(e.Payload))
}

// wordsFirst moves the facts before a person's words, which are long, behind them. title is the beginning of the words, on one line; "" if
// there are no facts.
func wordsFirst(text, title string) string {
	text = strings.Join(strings.Fields(text), " ")
	if at := strings.LastIndex(text, title); title != "" && at > 0 {
		return text[at:] + " | " + strings.TrimSpace(text[:at])
	}
	return text
}

// copyFrom copies the sessions of another database, with their large results. It skips sessions that exist already, so an interrupted copy can
// be repeated.
func (t *tapes) copyFrom(ctx context.Context, args []string) (err error) {
	other := *t.c
	other.Database = args[0]
	if err := config.CheckDatabase(other.Database); err != nil {
		return err
	}
	if other.Database == t.c.Database {
		return fmt.Errorf("cannot copy from %s to itself; choose the target with --database", other.DatabaseName())
	}
	d, err := openExisting(&other)
	if err != nil {
		return err
	}
	source := d.tapes(nil, nil)
	defer func() { err = errors.Join(err, source.Close(), d.Close()) }()
	var sessions []tape.Info // before the first is copied, because a store need not list and append at once
	for in, err := range source.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return err
		}
		sessions = append(sessions, in)
	}
	copied, existing := 0, 0
	for _, in := range slices.Backward(sessions) { // the one that was used last comes last
		_, err := tape.Copy(ctx, source, in, t.store)
		switch {
		case err == nil:
			copied++
		case errors.Is(err, tape.ErrNotEmpty):
			existing++
		case !errors.Is(err, tape.ErrNotFound) && !errors.Is(err, tape.ErrDeleted): // it may have been deleted in the meantime
			return fmt.Errorf("copied %d of %d sessions; session %s: %w; repeat the command to continue", copied+existing, len(sessions), show(in.Session), err)
		}
	}
	fmt.Fprintf(t.out, "copied %d sessions, skipped %d existing ones\n", copied, existing)
	return nil
}
