package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/lingserve/lingserve/access"
)

// keyOptions are the flags of the command.
type keyOptions struct {
	file, name, role, scopes, expires string
	json                              bool
}

func keysCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o keyOptions
	set := flag.NewFlagSet("keys", flag.ContinueOnError)
	set.StringVar(&o.file, "file", "", "key `FILE`; list and check read LINGSERVE_API_KEYS too")
	set.StringVar(&o.name, "name", "", "`NAME` of the owner; keys may share a name")
	set.StringVar(&o.role, "role", "user", "`ROLE`: user, operator or admin (user)")
	set.StringVar(&o.scopes, "scopes", "", "comma-separated `LIST` of workflows[:PATTERN], agents[:PATTERN], sessions, admin; the default is all of the role")
	set.StringVar(&o.expires, "expires", "", "`TIME`: 90d, 12h, 2027-01-31 or 2027-01-31T12:00:00Z; the default is never")
	set.BoolVar(&o.json, "json", false, "print one JSON object per line")
	rest, status, ok := arguments(set, args, stdout, stderr)
	names := []string{"new", "list", "check"}
	switch {
	case !ok:
		return status
	case len(rest) == 0:
		return usage(stderr, "keys", "the action is missing; expected one of %s", strings.Join(names, ", "))
	case len(rest) > 1 && rest[0] == "check":
		// It is not repeated: it is likely to be the key.
		return usage(stderr, "keys", "unexpected argument; send the key to standard input, so that it is in no process list and no history")
	case len(rest) > 1:
		return usage(stderr, "keys", "unexpected argument %q", rest[1])
	}
	if rest[0] != "new" {
		for _, name := range []string{"name", "role", "scopes", "expires"} {
			if f := set.Lookup(name); f.Value.String() != f.DefValue {
				return usage(stderr, "keys", "--%s is only for \"lingserve keys new\"", name)
			}
		}
	}
	switch rest[0] {
	case "new":
		return newKey(&o, time.Now(), stdout, stderr)
	case "list", "check":
		keys, err := access.NewKeys(access.KeysOptions{File: o.file, Environment: os.Getenv("LINGSERVE_API_KEYS")})
		if err != nil {
			return fail(stderr, err)
		}
		defer keys.Close()
		if rest[0] == "list" {
			err = listKeys(&o, keys.All(), time.Now(), stdout, stderr)
		} else {
			err = checkKey(&o, keys, stdin, stdout, stderr)
		}
		if err != nil {
			return fail(stderr, err)
		}
		return exitOK
	}
	return usage(stderr, "keys", "unknown action %q%s", rest[0], didYouMean(rest[0], names, ""))
}

// newKey makes a key and prints it.
func newKey(o *keyOptions, now time.Time, stdout, stderr io.Writer) int {
	p := access.Principal{Name: o.name}
	if err := access.CheckName(o.name); err != nil {
		return usage(stderr, "keys", "--name: %v", err)
	}
	var err error
	if p.Role, err = access.ParseRole(o.role); err != nil {
		return usage(stderr, "keys", "--role: %v", err)
	}
	var scopes []string
	for scope := range strings.SplitSeq(o.scopes, ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	if p.Scopes, err = access.ParseScopes(scopes); err != nil {
		return usage(stderr, "keys", "--scopes: %v", err)
	}
	var expires time.Time
	if o.expires != "" {
		if expires, err = expiry(o.expires, now); err != nil {
			return usage(stderr, "keys", "--expires: %v", err)
		}
	}
	key, text := access.NewKey(p, expires)
	// As a server will read it: what does not go together is said now.
	if _, err := access.ParseKey(key.Entry()); err != nil {
		return usage(stderr, "keys", "%v", err)
	}
	if o.file != "" {
		if err := access.AddKey(o.file, &key); err != nil {
			return fail(stderr, err)
		}
	}
	if o.json {
		row := struct {
			Key   string `json:"key"`
			ID    string `json:"id"`
			Entry string `json:"entry"`
		}{text, key.ID, key.Entry()}
		_ = printJSON(stdout, row)
		return exitOK
	}
	fmt.Fprintln(stdout, text)
	if o.file == "" {
		fmt.Fprintln(stdout, key.Entry())
		fmt.Fprintf(stderr, "The first line is the key for %s; store it now, because it is not shown again. The second line is the entry for the key file.\n", o.name)
	} else {
		fmt.Fprintf(stderr, "This is the key for %s; store it now, because it is not shown again. Its entry in %s has the id %s.\n", o.name, o.file, key.ID)
	}
	return exitOK
}

// expiry reads a time, or how long from now.
func expiry(text string, now time.Time) (time.Time, error) {
	at, err := access.ParseExpiry(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		if n, e := strconv.Atoi(days); e == nil && n <= 36500 {
			at, err = now.AddDate(0, 0, n), nil
		}
	} else if d, e := time.ParseDuration(text); e == nil && err != nil {
		at, err = now.Add(d), nil
	}
	if err != nil {
		return at, fmt.Errorf("%w, or a time from now, such as 90d or 12h", err)
	}
	if !at.After(now) {
		return at, fmt.Errorf("%s is in the past; expected a later time", text)
	}
	return at.Truncate(time.Second), nil
}

// keyRow is a key in the list.
type keyRow struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Scopes  string `json:"scopes,omitempty"`
	Expires string `json:"expires,omitempty"`
	State   string `json:"state"` // ok, expired or revoked
	Place   string `json:"place"`
}

func rowOf(k *access.Key, now time.Time) keyRow {
	row := keyRow{ID: k.ID, Name: k.Principal.Name, Role: k.Principal.Role.String(), Scopes: k.Principal.Scopes.String(), State: "ok", Place: k.Place}
	if !k.Expires.IsZero() {
		row.Expires = k.Expires.Format(time.RFC3339)
		if !now.Before(k.Expires) {
			row.State = "expired"
		}
	}
	if k.Revoked {
		row.State = "revoked"
	}
	return row
}

func listKeys(o *keyOptions, keys []access.Key, now time.Time, stdout, stderr io.Writer) error {
	if len(keys) == 0 && !o.json {
		fmt.Fprintln(stderr, "there are no keys; create one with \"lingserve keys new\"")
		return nil
	}
	out := newListing(stdout, o.json, "ID", "NAME", "ROLE", "SCOPES", "EXPIRES", "STATE", "PLACE")
	for i := range keys {
		row := rowOf(&keys[i], now)
		out.add(row, row.ID, row.Name, row.Role, cmp.Or(row.Scopes, "all"), cmp.Or(row.Expires, "never"), row.State, row.Place)
	}
	return out.end()
}

// checkKey says whose key it is that somebody types or pipes in. Without one, that the entries could be read is all there is to say.
func checkKey(o *keyOptions, keys *access.Keys, stdin io.Reader, stdout, stderr io.Writer) error {
	text, err := readSecret(stdin, stderr)
	if err != nil {
		return err
	}
	if text == "" && keys.Len() == 0 {
		return errors.New("there are no keys to check; lingserve keys new creates one")
	}
	if text == "" {
		fmt.Fprintf(stderr, "all %d keys are valid; to check a key, send it to standard input\n", keys.Len())
		return nil
	}
	key, err := keys.Find(text)
	if refusal, ok := errors.AsType[*access.Refusal](err); ok {
		if key != nil {
			return fmt.Errorf("%s: the key %s of %s in %s", refusal.Detail, key.ID, key.Principal.Name, key.Place)
		}
		return errors.New(refusal.Detail)
	}
	return listKeys(o, []access.Key{*key}, time.Now(), stdout, stderr)
}

// readSecret reads a line; what is typed at a terminal is not shown.
func readSecret(stdin io.Reader, stderr io.Writer) (string, error) {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(stderr, "key (hidden): ")
		text, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(stderr)
		return strings.TrimSpace(string(text)), err
	}
	line, err := bufio.NewReader(io.LimitReader(stdin, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
