package access_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

var (
	ann = access.Principal{Name: "ann"}
	bob = access.Principal{Name: "bob", Role: tool.Admin}
)

// foreign is a key that was made elsewhere.
const foreign = "0f8c1e5d7a9b3c2e4f6a8b0c1d2e3f40"

func newKeys(t testing.TB, o access.KeysOptions) *access.Keys {
	t.Helper()
	k, err := access.NewKeys(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func TestAKeyLeadsToItsPrincipal(t *testing.T) {
	p := access.Principal{Name: "ann", Role: tool.Operator, Scopes: scopes(t, "workflows:team-*", "sessions")}
	key, text := access.NewKey(p, time.Now().Add(time.Hour))
	other, otherText := access.NewKey(ann, time.Time{})
	keys := newKeys(t, access.KeysOptions{
		Entries: []string{key.Entry(), "", "bob:" + foreign + ":admin", other.Entry(), " "}, // the same principal with a second key
	})
	for text, want := range map[string]access.Principal{text: p, otherText: ann, foreign: bob} {
		got, err := keys.Find(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Principal, cmp.Comparer(func(a, b access.Scopes) bool { return a.String() == b.String() })); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(got.ID, text) || len(got.ID) != 8 {
			t.Errorf("the id is %q", got.ID)
		}
	}
	if got, _ := keys.Find(text); got.ID != key.ID || !strings.HasPrefix(text, "lsk_"+key.ID+"_") {
		t.Errorf("%q has the id %q, its entry %q", text, key.ID, got.ID)
	}
	if keys.Len() != 3 || keys.All()[2].Place != "entry 4 of the configured keys" {
		t.Errorf("%+v", keys.All())
	}
}

func TestAKeyStandsInTheConfigurationAsItIsOrAsItsDigest(t *testing.T) {
	key, text := access.NewKey(ann, time.Time{})
	for _, entry := range []string{key.Entry(), "ann:" + text + ":user"} {
		got, err := newKeys(t, access.KeysOptions{Entries: []string{entry}}).Find(text)
		if err != nil || got.ID != key.ID {
			t.Errorf("%+v %v", got, err)
		}
	}
	if strings.Contains(key.Entry(), text[len("lsk_")+9:]) {
		t.Error("an entry holds the key")
	}
}

func TestAKeyThatDoesNotCountIsRefused(t *testing.T) {
	good, text := access.NewKey(ann, time.Time{})
	expired, expiredText := access.NewKey(ann, time.Now().Add(-time.Second))
	revoked, revokedText := access.NewKey(bob, time.Now().Add(-time.Second))
	revoked.Revoked = true
	_, unknownText := access.NewKey(ann, time.Time{})
	keys := newKeys(t, access.KeysOptions{Entries: []string{good.Entry(), expired.Entry(), revoked.Entry()}})
	for name, tc := range map[string]struct {
		text string
		want error
		id   string
	}{
		"expired":                {expiredText, access.ErrExpiredKey, expired.ID},
		"revoked":                {revokedText, access.ErrRevokedKey, revoked.ID},
		"one nobody knows":       {unknownText, access.ErrUnknownKey, ""},
		"a letter too few":       {text[:len(text)-1], access.ErrMistypedKey, ""},
		"a letter too many":      {text + "a", access.ErrMistypedKey, ""},
		"large letters":          {"lsk_" + strings.ToUpper(text[4:]), access.ErrMistypedKey, ""},
		"nothing":                {"", access.ErrUnknownKey, ""},
		"only the mark":          {"lsk_", access.ErrMistypedKey, ""},
		"its stored form":        {strings.Split(good.Entry(), ":")[1], access.ErrMistypedKey, ""},
		"its entry":              {good.Entry(), access.ErrUnknownKey, ""},
		"something huge":         {strings.Repeat("a", 1<<20), access.ErrUnknownKey, ""},
		"the key and a NUL":      {text + "\x00", access.ErrMistypedKey, ""},
		"a blank in front of it": {" " + text, access.ErrUnknownKey, ""},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := keys.Find(tc.text)
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if id := idOf(key); id != tc.id {
				t.Errorf("of the key %q, want %q", id, tc.id)
			}
			if refusal, ok := errors.AsType[*access.Refusal](err); !ok || refusal.Status != 401 || refusal.Code != "unauthorized" {
				t.Errorf("%#v", err)
			}
		})
	}
}

func idOf(k *access.Key) string {
	if k == nil {
		return ""
	}
	return k.ID
}

// A key in which one letter is wrong, or two next to each other changed places, is told from one that is unknown.
func TestATypoIsToldFromAWrongKey(t *testing.T) {
	keys := newKeys(t, access.KeysOptions{})
	rapid.Check(t, func(rt *rapid.T) {
		_, text := access.NewKey(ann, time.Time{})
		b := []byte(text)
		i := rapid.IntRange(4, len(b)-2).Draw(rt, "at")
		if rapid.Bool().Draw(rt, "swap") {
			b[i], b[i+1] = b[i+1], b[i]
		} else {
			b[i] = rapid.SampledFrom([]byte("abcdefghijklmnopqrstuvwxyz234567_01-")).Draw(rt, "letter")
		}
		want := access.ErrMistypedKey
		if string(b) == text {
			want = access.ErrUnknownKey
		}
		if _, err := keys.Find(string(b)); !errors.Is(err, want) {
			rt.Fatalf("%q for %q: %v", b, text, err)
		}
	})
}

func TestKeysAreNotGuessable(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		key, text := access.NewKey(ann, time.Time{})
		secret := text[len("lsk_")+len(key.ID)+1:][:32] // letters of 5 bits
		if seen[secret] || seen[key.ID] {
			t.Fatal("a key came twice")
		}
		seen[secret], seen[key.ID] = true, true
	}
}

func TestEntriesAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := access.Principal{
			Name: rapid.StringMatching(`[a-z0-9]([a-z0-9._-]{0,40}[a-z0-9])?`).Filter(func(s string) bool { return s != "local" }).Draw(t, "name"),
			Role: tool.Role(rapid.IntRange(0, 2).Draw(t, "role")),
		}
		var list []string
		for range rapid.IntRange(0, 3).Draw(t, "scopes") {
			list = append(list, rapid.StringMatching(`(workflows|agents):[a-z*-]{1,8}|sessions`).Draw(t, "scope"))
		}
		var err error
		if p.Scopes, err = access.ParseScopes(list); err != nil {
			t.Fatal(err)
		}
		var expires time.Time
		if rapid.Bool().Draw(t, "expires") {
			expires = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0).UTC()
		}
		key, _ := access.NewKey(p, expires)
		key.Revoked = rapid.Bool().Draw(t, "revoked")
		got, err := access.ParseKey(key.Entry())
		if err != nil {
			t.Fatalf("%s: %v", key.Entry(), err)
		}
		if got.Entry() != key.Entry() || got.ID != key.ID || !got.Expires.Equal(expires) {
			t.Fatalf("%s\n%s", key.Entry(), got.Entry())
		}
	})
}

func TestAWrongEntryIsNamedAndItsKeyIsNot(t *testing.T) {
	key, text := access.NewKey(ann, time.Time{})
	stored := strings.Split(key.Entry(), ":")[1]
	for name, tc := range map[string]struct{ entry, want string }{
		"only a key":                  {text, "found 1 instead of 3 parts before the first space; expected NAME:KEY:ROLE"},
		"no role":                     {"ann:" + text, "found 2 instead of 3 parts before the first space; expected NAME:KEY:ROLE"},
		"too much":                    {"ann:" + text + ":user:x", "found 4 instead of 3 parts before the first space; expected NAME:KEY:ROLE"},
		"a blank after the colon":     {"ann: " + text + ":user", "found 2 instead of 3 parts before the first space; expected NAME:KEY:ROLE"},
		"key and name changed places": {text + ":ann:user", `the key in the second part has 3 characters; expected a key of "lingserve keys new", or 20 to 512 random characters`},
		"two keys":                    {text + ":" + foreign + ":user", "found a key in place of the name; expected NAME:KEY:ROLE"},
		"key and role changed places": {"ann:user:" + foreign, `the key in the second part has 4 characters; expected a key of "lingserve keys new", or 20 to 512 random characters`},
		"a key for a role":            {"ann:" + text + ":" + foreign, "of ann: the third part is not a role; expected user, operator or admin"},
		"no name":                     {":" + text + ":user", "the name is missing"},
		"a name in large letters":     {"Ann:" + text + ":user", `invalid name; expected at most 64 lower-case letters, digits, ".", "_" and "-", with a letter or digit at both ends`},
		"the local name":              {"local:" + text + ":user", "the name local is reserved for requests without keys; choose another name"},
		"a role that there is not":    {"ann:" + text + ":root", "of ann: the third part is not a role; expected user, operator or admin"},
		"a mistyped key":              {"ann:" + text[:20] + "aa" + text[22:] + ":user", "the key in the second part is mistyped or incomplete; copy it again"},
		"a digest that was cut off":   {"ann:" + stored[:40] + ":user", "the digest in the second part is incomplete or changed; copy the whole line that \"lingserve keys new\" prints"},
		"a short key":                 {"ann:hunter2:user", `the key in the second part has 7 characters; expected a key of "lingserve keys new", or 20 to 512 random characters`},
		"a long key":                  {"ann:" + strings.Repeat("abcdefgh", 65) + ":user", `the key in the second part has 520 characters; expected a key of "lingserve keys new", or 20 to 512 random characters`},
		"a key for no header":         {"ann:ключключключключключ:user", "the key in the second part has characters that a header cannot contain; create a key with \"lingserve keys new\""},
		"an attribute":                {"ann:" + text + ":user " + foreign, "of ann: unknown text after the role; expected scopes=SCOPE+SCOPE, expires=TIME or revoked"},
		"an attribute twice":          {"ann:" + text + ":user revoked revoked", "of ann: revoked occurs twice; remove one"},
		"revoked with a value":        {"ann:" + text + ":user revoked=no", "of ann: unknown text after the role; expected scopes=SCOPE+SCOPE, expires=TIME or revoked"},
		"a scope that there is not":   {"ann:" + text + ":user scopes=all", `of ann: unknown scope "all"; expected workflows, workflows:PATTERN, agents, agents:PATTERN, sessions or admin`},
		"no scope":                    {"ann:" + text + ":user scopes=", `of ann: unknown scope ""; expected workflows, workflows:PATTERN, agents, agents:PATTERN, sessions or admin`},
		"a scope above the role":      {"ann:" + text + ":user scopes=admin", "of ann: the scope admin needs the role admin"},
		"a key for a scope":           {"ann:" + text + ":user scopes=" + text, `of ann: unknown scope "…"; expected workflows, workflows:PATTERN, agents, agents:PATTERN, sessions or admin`},
		"a key for a time":            {"ann:" + text + ":user expires=" + text, `of ann: "…" is not a time; expected one such as 2027-01-31 or 2027-01-31T12:00:00Z`},
		"a time in words":             {"ann:" + text + ":user expires=soon", `of ann: "soon" is not a time; expected one such as 2027-01-31 or 2027-01-31T12:00:00Z`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := access.NewKeys(access.KeysOptions{Entries: []string{"", tc.entry}})
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff("entry 2 of the configured keys: "+tc.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			for _, secret := range []string{text[13:], foreign, "hunter2", stored[20:40]} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the key stands in the error: %v", err)
				}
			}
		})
	}
	twice := []string{key.Entry(), "bob:" + text + ":admin"}
	if _, err := access.NewKeys(access.KeysOptions{Entries: twice}); err == nil || err.Error() != "entry 2 of the configured keys: this key is the same as entry 1 of the configured keys; remove one" {
		t.Error(err)
	}
}

// However an entry is mangled, what is said of it holds no piece of the key.
func FuzzParseKey(f *testing.F) {
	const secret = "q7w3e5r9t2y4u6i8o0pa"
	f.Add("ann:", ":user")
	f.Add("", ":ann:user")
	f.Add("ann:user:", "")
	f.Add("ann:"+foreign+":", "")
	f.Add("ann:"+foreign+":user ", "")
	f.Add("ann:"+foreign+":user scopes=", "")
	f.Add("ann:"+foreign+":user expires=", " revoked")
	f.Add("ann:lsk_aaaaaaaa_sha256_", ":user")
	f.Fuzz(func(t *testing.T, before, after string) {
		_, err := access.ParseKey(before + secret + after)
		if err == nil {
			return
		}
		// What stands in the place of a scope or time is repeated, so that it can be found; a key is never meant there.
		if strings.Contains(before, "=") {
			return
		}
		for i := range len(secret) - 7 {
			if strings.Contains(err.Error(), secret[i:i+8]) {
				t.Fatalf("%q: %v", before+"SECRET"+after, err)
			}
		}
	})
}

// lines are what was logged; a log may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func writeKeys(t testing.TB, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFileOfKeysIsReadAgainWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.txt")
		first, firstText := access.NewKey(ann, time.Time{})
		second, secondText := access.NewKey(bob, time.Time{})
		writeKeys(t, path, "\ufeff# those who may", "", first.Entry()+"\r", "")
		var log lines
		keys := newKeys(t, access.KeysOptions{File: path, Entries: []string{"eve:" + foreign + ":user"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		find := func(text string, want error) {
			t.Helper()
			if _, err := keys.Find(text); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		find(firstText, nil)
		find(secondText, access.ErrUnknownKey)

		if err := access.AddKey(path, &second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		find(secondText, nil)

		// A file that was broken lets in those who were known, and nobody else; that is said once.
		writeKeys(t, path, first.Entry(), "bob:"+secondText+":root", "eve")
		time.Sleep(time.Minute)
		synctest.Wait()
		find(firstText, nil)
		find(secondText, nil)
		if n := strings.Count(log.String(), "cannot use the key file"); n != 1 || !strings.Contains(log.String(), "keys.txt:2: of bob: the third part is not a role") {
			t.Errorf("said %d times: %s", n, log.String())
		}
		if strings.Contains(log.String(), secondText[13:]) {
			t.Error("the log has the key")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		find(firstText, nil)

		first.Revoked = true
		writeKeys(t, path, first.Entry())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		find(firstText, access.ErrRevokedKey)
		find(secondText, access.ErrUnknownKey)
		find(foreign, nil)                                                                          // of the environment
		if n := strings.Count(log.String(), `msg="read the key file"`); keys.Len() != 2 || n != 2 { // what has not changed is nothing new
			t.Errorf("%d keys, said %d times that they were read: %s", keys.Len(), n, log.String())
		}
	})
}

func TestAFileOfKeysIsKeptToTheServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no modes")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.txt")
	key, _ := access.NewKey(ann, time.Time{})
	writeKeys(t, path, key.Entry())
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o644: false, 0o660: false, 0o602: false, 0o666: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		k, err := access.NewKeys(access.KeysOptions{File: path})
		if (err == nil) != ok {
			t.Errorf("%o: %v", mode, err)
		}
		if k != nil {
			k.Close()
		}
	}
	for name, path := range map[string]string{"no file": filepath.Join(dir, "missing"), "a folder": dir} {
		if _, err := access.NewKeys(access.KeysOptions{File: path}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	large := filepath.Join(dir, "large")
	writeKeys(t, large, strings.Repeat("# nothing\n", 500_000))
	if _, err := access.NewKeys(access.KeysOptions{File: large}); err == nil || !strings.Contains(err.Error(), "too large for a key file") {
		t.Error(err)
	}
	wrong := filepath.Join(dir, "100%d.txt")
	writeKeys(t, wrong, strings.Repeat("x\n", 1000))
	if _, err := access.NewKeys(access.KeysOptions{File: wrong}); err == nil || strings.Count(err.Error(), "\n") != 9 || !strings.HasPrefix(err.Error(), "100%d.txt:1: ") {
		t.Error(err)
	}
}

func TestAKeyIsPutAtTheEndOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.txt")
	one, _ := access.NewKey(ann, time.Time{})
	two, _ := access.NewKey(bob, time.Time{})
	if err := access.AddKey(path, &one); err != nil {
		t.Fatal(err)
	}
	if in, err := os.Stat(path); err != nil || in.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Error(in.Mode(), err)
	}
	writeKeys(t, path, "# no line break at the end") // as editors leave it
	if err := access.AddKey(path, &two); err != nil {
		t.Fatal(err)
	}
	if keys, err := access.ReadKeys(path); err != nil || len(keys) != 1 || keys[0].ID != two.ID || keys[0].Place != "keys.txt:2" {
		t.Errorf("%+v %v", keys, err)
	}
}
