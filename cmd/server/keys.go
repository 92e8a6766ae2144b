package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/access"
)

// keyCommand has what "lingserve keys" works with.
type keyCommand struct {
	streams
	file, name, role, scopes, expires string
	json                              bool
}

func keysCommand(s streams) *cobra.Command {
	o := keyCommand{streams: s}
	create := newCommand("keys new", func([]string) error { return o.create(time.Now()) })
	create.Flags().StringVar(&o.name, "name", "", "`NAME` of the owner; keys may share a name")
	create.Flags().StringVar(&o.role, "role", "user", "`ROLE`: user, operator or admin")
	create.Flags().StringVar(&o.scopes, "scopes", "", "comma-separated `LIST` of workflows[:PATTERN], agents[:PATTERN], sessions, admin; the default is all of the role")
	create.Flags().StringVar(&o.expires, "expires", "", "`TIME`: 90d, 12h, 2027-01-31 or 2027-01-31T12:00:00Z; the default is never")
	cmd := newCommand("keys", nil, create,
		newCommand("keys list", func([]string) error { return o.list() }))
	cmd.PersistentFlags().StringVar(&o.file, "file", "", "key `FILE`; list reads LINGSERVE_API_KEYS too")
	cmd.PersistentFlags().BoolVar(&o.json, "json", false, "print one JSON object per line")
	return cmd
}

// create creates a key and prints it.
func (o *keyCommand) create(now time.Time) error {
	p := access.Principal{Name: o.name}
	if err := access.CheckName(o.name); err != nil {
		return usagef("--name: %v", err)
	}
	var err error
	if p.Role, err = access.ParseRole(o.role); err != nil {
		return usagef("--role: %v", err)
	}
	scopes := strings.FieldsFunc(o.scopes, func(r rune) bool { return r == ',' || r == ' ' })
	if p.Scopes, err = access.ParseScopes(scopes); err != nil {
		return usagef("--scopes: %v", err)
	}
	var expires time.Time
	if o.expires != "" {
		if expires, err = expiry(o.expires, now); err != nil {
			return usagef("--expires: %v", err)
		}
	}
	key, text := access.NewKey(p, expires)
	if _, err := access.ParseKey(key.Entry()); err != nil { // such as a scope that the role may not have
		return usagef("%v", err)
	}
	if o.file != "" {
		if err := access.AddKey(o.file, &key); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(o.out, struct {
			Key   string `json:"key"`
			ID    string `json:"id"`
			Entry string `json:"entry"`
		}{text, key.ID, key.Entry()})
	}
	fmt.Fprintln(o.out, text)
	if o.file == "" {
		fmt.Fprintln(o.out, key.Entry())
		fmt.Fprintf(o.err, "The first line is the key for %s; store it now, because it is not shown again. The second line is the entry for the key file.\n", o.name)
	} else {
		fmt.Fprintf(o.err, "This is the key for %s; store it now, because it is not shown again. Its entry in %s has the id %s.\n", o.name, o.file, key.ID)
	}
	return nil
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

// list prints the keys of the file and the environment.
func (o *keyCommand) list() error {
	read, err := access.NewKeys(access.KeysOptions{File: o.file, Entries: strings.Split(os.Getenv("LINGSERVE_API_KEYS"), ",")})
	if err != nil {
		return err
	}
	defer read.Close()
	keys := read.All()
	if len(keys) == 0 && !o.json {
		fmt.Fprintln(o.err, "there are no keys; create one with \"lingserve keys new\"")
		return nil
	}
	out := newListing(o.out, o.json, "ID", "NAME", "ROLE", "SCOPES", "EXPIRES", "STATE", "PLACE")
	for i := range keys {
		row := rowOf(&keys[i], time.Now())
		out.add(row, row.ID, row.Name, row.Role, cmp.Or(row.Scopes, "all"), cmp.Or(row.Expires, "never"), row.State, row.Place)
	}
	return out.end()
}
