package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDatabase(t *testing.T) {
	const address = "postgres://ann:s3cret-word@db.example.com/x"
	for _, test := range []struct {
		flags      []string
		file, name string
		replicas   bool
	}{
		{nil, "data/lingserve.db", "data/lingserve.db", false},
		{[]string{"--data", "/srv/ling"}, "/srv/ling/lingserve.db", "/srv/ling/lingserve.db", false},
		{[]string{"--database", "sqlite:/x/y.db"}, "/x/y.db", "/x/y.db", false},
		{[]string{"--database", "memory"}, "", "memory", false},
		{[]string{"--database", address}, "", "postgres://ann:xxxxx@db.example.com/x", true},
	} {
		c := mustLoad(t, "", nil, test.flags...)
		if filepath.ToSlash(c.DatabaseFile()) != test.file || filepath.ToSlash(c.DatabaseName()) != test.name || c.Replicas() != test.replicas {
			t.Errorf("%q: file %q, name %q, replicas %v", test.flags, c.DatabaseFile(), c.DatabaseName(), c.Replicas())
		}
	}
	if c := mustLoad(t, "", nil, "--database", "memory", "--data", "x"); c.Data != "" {
		t.Errorf("the folder is %q although nothing is stored", c.Data)
	}
}

// SE-06: the password of a database is shown nowhere.
func TestPasswordOfTheDatabaseIsHidden(t *testing.T) {
	const address = "postgres://ann:s3cret-word@db.example.com/x"
	c := mustLoad(t, "", []string{"LINGSERVE_DATABASE=" + address})
	if !slices.Contains(c.Secrets(), "s3cret-word") || !slices.Contains(c.Secrets(), address) || len(c.Warnings) != 0 {
		t.Errorf("warnings %q; the log would not hide the password", c.Warnings)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil || strings.Contains(b.String(), "s3cret") || !strings.Contains(b.String(), "database: postgres://ann:xxxxx@db.example.com/x ") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	if c := mustLoad(t, "", nil, "--database", address); len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "--database contains a secret") {
		t.Errorf("by a flag: warnings %q", c.Warnings)
	}
	if c := mustLoad(t, "", nil, "--database", "postgres://ann@db/x"); len(c.Warnings) != 0 {
		t.Errorf("without a password: warnings %q", c.Warnings)
	}
}

func TestInvalidDatabase(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:":                               "no such database; expected sqlite:FILE, postgres://",
		"sqlite:a.db?mode=ro":                   "no such database; expected",
		"data/x.db":                             "no such database; expected sqlite:FILE",
		"mysql://u:s3cret@h/x":                  "no such database; expected",
		"u:s3cret@h/x":                          "no such database; expected",
		"postgres:s3cret":                       "no such database; expected",
		"postgres://u:s3%cret@h/x":              "no such database; expected",
		"postgres://h/x?user=u&password=s3cret": "the password is in the query of the address",
	} {
		_, err := load(t, "", nil, "--database", text)
		if err == nil || !strings.Contains(err.Error(), "--database: "+want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := load(t, "", nil, "--data", ""); err == nil || !strings.Contains(err.Error(), "--data: is empty; expected a folder, or database: memory") {
		t.Errorf("no folder: %v", err)
	}
}

// CL-01: an element that is not text is reported with what it is and an example.
func TestAListOfOtherThingsThanText(t *testing.T) {
	for list, want := range map[string]string{
		"[at, b: 4222]":  "lingserve.yaml:1:26: auth.token_types: expected text, got a mapping",
		"[[at]]":         "auth.token_types: expected text, got a list",
		"[null]":         "auth.token_types: expected text, got nothing",
		"[!!str a]":      "auth.token_types: anchors, aliases and tags are not supported; write the value itself",
		"[4222]":         "auth.token_types: 4222 is not text; put the value in quotes",
		"[4.5]":          "auth.token_types: 4.5 is not text; put the value in quotes",
		"{at: //s3cret}": "auth.token_types: found a mapping; expected a list",
	} {
		if _, err := load(t, "auth: {token_types: "+list+"}", nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}
