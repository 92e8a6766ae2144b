package access_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

func scopes(t testing.TB, list ...string) access.Scopes {
	t.Helper()
	s, err := access.ParseScopes(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatAPrincipalMayFollowsFromItsRoleAndScopes(t *testing.T) {
	for name, tc := range map[string]struct {
		who  access.Principal
		want string // of what it may, in the order below
	}{
		"nobody":                {access.Principal{}, ""},
		"nobody with a role":    {access.Principal{Role: tool.Admin}, ""},
		"the one local user":    {access.Local, "run team-a, run other, run inline, ask helper, ask other, remember, administer"},
		"a user":                {access.Principal{Name: "ann"}, "run team-a, run other, run inline, ask helper, ask other, remember"},
		"an operator":           {access.Principal{Name: "ann", Role: tool.Operator}, "run team-a, run other, run inline, ask helper, ask other, remember"},
		"an admin":              {access.Principal{Name: "ann", Role: tool.Admin}, "run team-a, run other, run inline, ask helper, ask other, remember, administer"},
		"some workflows":        {access.Principal{Name: "ann", Scopes: scopes(t, "workflows:team-*")}, "run team-a"},
		"two of them":           {access.Principal{Name: "ann", Scopes: scopes(t, "workflows:team-*", "workflows:other")}, "run team-a, run other"},
		"all workflows":         {access.Principal{Name: "ann", Scopes: scopes(t, "workflows")}, "run team-a, run other, run inline"},
		"one agent":             {access.Principal{Name: "ann", Scopes: scopes(t, "agents:helper")}, "ask helper"},
		"sessions":              {access.Principal{Name: "ann", Scopes: scopes(t, "sessions")}, "remember"},
		"an admin with scopes":  {access.Principal{Name: "ann", Role: tool.Admin, Scopes: scopes(t, "agents")}, "ask helper, ask other"},
		"only the scope admin":  {access.Principal{Name: "ann", Role: tool.Admin, Scopes: scopes(t, "admin")}, "administer"},
		"the scope, not a role": {access.Principal{Name: "ann", Scopes: scopes(t, "admin")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, may := range []struct {
				what string
				is   bool
			}{
				{"run team-a", tc.who.Runs("team-a")},
				{"run other", tc.who.Runs("other")},
				{"run inline", tc.who.Runs("")},
				{"ask helper", tc.who.Asks("helper")},
				{"ask other", tc.who.Asks("other")},
				{"remember", tc.who.Remembers()},
				{"administer", tc.who.Administers()},
			} {
				if may.is {
					got = append(got, may.what)
				}
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("got %q, want %q", strings.Join(got, ", "), tc.want)
			}
		})
	}
}

// SE-09: what is another's is not seen.
func TestOnlyTheOwnerAndAdminsSeeWhatIsOwned(t *testing.T) {
	ann, boss := access.Principal{Name: "ann"}, access.Principal{Name: "boss", Role: tool.Admin}
	for name, tc := range map[string]struct {
		who   access.Principal
		owner string
		want  bool
	}{
		"her own":                       {ann, "ann", true},
		"another's":                     {ann, "bob", false},
		"a name that begins as hers":    {ann, "ann2", false},
		"what nobody owns":              {ann, "", false},
		"an admin":                      {boss, "ann", true},
		"an admin, what nobody owns":    {boss, "", true},
		"an admin whose scopes are few": {access.Principal{Name: "boss", Role: tool.Admin, Scopes: scopes(t, "agents")}, "ann", false},
		"nobody, what nobody owns":      {access.Principal{}, "", false},
		"nobody":                        {access.Principal{}, "ann", false},
		"the local user, its own":       {access.Local, access.Local.Owner(), true},
		"the local user, of a server before that had keys": {access.Local, "ann", true},
	} {
		if got := tc.who.Sees(tc.owner); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if access.Local.Owner() != "" || ann.Owner() != "ann" {
		t.Error("owners")
	}
}

func TestNamesOfPrincipalsCanStandInLabelsAndFileNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"ann": true, "a": true, "7": true, "team-a.ci_2": true, strings.Repeat("a", 64): true,
		"": false, "local": false, "Ann": false, "ann lee": false, "ann/bob": false, "..": false, ".ann": false, "ann.": false, "-ann": false,
		"ann@sso": false, "ann:bob": false, "änn": false, "ann\n": false, "ann\x00": false, strings.Repeat("a", 65): false, `ann"`: false,
	} {
		if err := access.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Two subjects are never one principal, and no subject is a key's.
func TestSubjectsOfTokensGetNamesOfTheirOwn(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9_][a-z0-9._-]*@[a-z0-9._-]+$`)
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		subject := rapid.OneOf(
			rapid.StringN(1, 60, 200), rapid.StringMatching(`[a-z0-9._-]{1,45}`), rapid.SampledFrom([]string{"ann", "Ann", "auth0|123", "ann@sso", "_ann"}),
		).Draw(t, "subject")
		name := access.TokenName("sso", subject)
		if other, ok := seen[name]; ok && other != subject {
			t.Fatalf("%q and %q are both %q", subject, other, name)
		}
		seen[name] = subject
		if !form.MatchString(name) || len(name) > access.MaxName || access.CheckName(name) == nil || filepath.Base(name) != name {
			t.Fatalf("%q is %q", subject, name)
		}
	})
	if got := access.TokenName("sso", "6f9619ff-8b86-d011-b42d-00c04fc964ff"); got != "6f9619ff-8b86-d011-b42d-00c04fc964ff@sso" {
		t.Errorf("a UUID is %q", got)
	}
}

func TestScopesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"workflows":                             "workflows",
		"workflows:*":                           "workflows",
		"workflows:team-*,workflows:team-*":     "workflows:team-*",
		"agents:a,sessions,admin,workflows:":    `the scope "workflows:" has no pattern after the colon; expected one such as workflows:team-*`,
		"agents:a,sessions,admin":               "agents:a+sessions+admin",
		"Agents":                                `unknown scope "Agents"; expected workflows, workflows:PATTERN, agents, agents:PATTERN, sessions or admin`,
		"sessions:mine":                         "the scope sessions takes no pattern; write only its name",
		"workflows:a b":                         "a scope's pattern contains a space, a comma or a +; remove it",
		"workflows:" + strings.Repeat("a", 129): "a scope's pattern is too long: 129 bytes; expected at most 128",
	} {
		var list []string
		if text != "" {
			list = strings.Split(text, ",")
		}
		s, err := access.ParseScopes(list)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, err := access.ParseScopes(make([]string, 65)); err == nil {
		t.Error("65 scopes are accepted")
	}
}

// A star is any text, and everything else is itself.
func TestPatternsMatchAsTheirRegularExpressionWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*.]{1,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab.]{1,10}`).Draw(t, "name")
		want := regexp.MustCompile(`^(?s:` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `)$`).MatchString(name)
		s, err := access.ParseScopes([]string{"workflows:" + pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := (access.Principal{Name: "ann", Scopes: s}).Runs(name); got != want {
			t.Fatalf("%q, %q: %v", pattern, name, got)
		}
	})
}

func TestALogShowsWhoItIs(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	log.Info("x", "by", access.Principal{Name: "ann", Role: tool.Operator})
	log.Info("x", "by", access.Principal{})
	if !strings.Contains(b.String(), "by.name=ann by.role=operator") || !strings.Contains(b.String(), "by=nobody") {
		t.Error(b.String())
	}
}

// DA-06: a principal that travels has its scopes at the other end, and none that are not understood.
func TestDA_06_APrincipalKeepsItsScopesOnTheWay(t *testing.T) {
	for _, list := range [][]string{nil, {"workflows"}, {"workflows:a-*", "agents", "sessions", "admin"}} {
		was := access.Principal{Name: "ann", Role: tool.Operator, Scopes: scopes(t, list...)}
		text, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		var is access.Principal
		if err := json.Unmarshal(text, &is); err != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("%s: %+v, %v", text, is, err)
		}
	}
	for _, text := range []string{`{"name":"ann","scopes":null}`, `{"name":"ann","scopes":["all"]}`, `{"name":"ann","scopes":"workflows"}`, `{"name":"ann","role":"king"}`} {
		var p access.Principal
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
	var p access.Principal
	if err := json.Unmarshal([]byte(`{"name":"ann","scopes":[]}`), &p); err != nil || p.Runs("x") || p.Asks("x") || p.Remembers() {
		t.Errorf("an empty list allows something: %+v, %v", p, err)
	}
}
