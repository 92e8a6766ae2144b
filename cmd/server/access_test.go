package main

import (
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// get asks for something with a key or a token, or with none.
func (p *process) get(path, bearer string) (status int, body string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestKeysOfTheFileCountAsSoonAsItSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.txt")
	newKey := func(name string) string {
		out, err := exec.Command("lingserve", "keys", "new", "--name", name, "--file", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	ann := newKey("ann")
	p := startServer(t, "--auth-keys-file", file, "--demo-pace", "0")
	if status, body := p.get("/v1/workflows", ""); status != 401 || !strings.Contains(body, "Authorization: Bearer") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := p.get("/", ""); status != 200 {
		t.Errorf("the page: %d", status)
	}
	if status, _ := p.get("/v1/workflows", ann); status != 200 {
		t.Errorf("her key: %d", status)
	}
	// One that is new, and one that is revoked.
	bob := newKey("bob")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(file, []byte(first+" revoked\n"+second), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.waitFor("API keys reloaded") // asking again and again would be too many requests without a valid key
	was, _ := p.get("/v1/workflows", ann)
	is, _ := p.get("/v1/workflows", bob)
	if was != 401 || is != 200 {
		t.Errorf("the revoked key: %d, the new one: %d", was, is)
	}
	// The commands show the key that the environment has, and say where it belongs.
	run := func(key string) (string, error) {
		cmd := exec.Command("lingserve", "run", "encyclopedia", "--input", "Why?", "--format", "json", "--server", p.base)
		cmd.Env = append(cleanEnvironment(), "LINGSERVE_KEY="+key)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(""); err == nil || !strings.Contains(out, "LINGSERVE_KEY") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := run(bob); err != nil || !strings.Contains(out, `"status":"completed"`) {
		t.Errorf("%v %s", err, out)
	}
	for _, line := range p.Log.Lines() {
		if strings.Contains(line, ann) || strings.Contains(line, bob) {
			t.Errorf("a key stands in the log: %s", line)
		}
	}
}

func TestAKeyIsShownToTheServerAloneThatItIsFor(t *testing.T) {
	t.Setenv("LINGSERVE_KEY", "a-key-of-nobody-in-particular")
	seen := make(chan string, 2)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	c, err := newClient(server.URL, false)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Workflow(t.Context(), "x") // the other server has none
	if first, second := <-seen, <-seen; first != "Bearer a-key-of-nobody-in-particular" || second != "" {
		t.Errorf("%q, %q", first, second)
	}
}

func TestTokensOfAnIssuerLetIn(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jwks.json")
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1", Algorithm: "EdDSA", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(audience string, groups ...string) string {
		text, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": "https://login.example.com/", "aud": audience, "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "groups": groups,
			"scope": "openid chat:workflows:ency*",
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	p := startServer(t, "--auth-issuer", "https://login.example.com/", "--auth-audience", "lingserve", "--auth-jwks", file,
		"--auth-role-claim", "groups", "--auth-roles", "staff=operator", "--auth-scope-prefix", "chat:")
	if status, body := p.get("/v1/workflows", token("lingserve", "staff")); status != 200 || !strings.Contains(body, "encyclopedia") || strings.Contains(body, `"name":"chat"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := p.get("/v1/workflows", token("another")); status != 401 || !strings.Contains(body, "not for this server") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := p.get("/v1/workflows/chat", token("lingserve")); status != 403 {
		t.Errorf("%d %s", status, body)
	}
	p.waitFor(`reason=token_audience`)
}

func TestWhatIsWrongWithTheSettingsOfAccessIsSaidAtTheStart(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"everybody's address": {[]string{"--addr", "0.0.0.0:0"}, "", "lingserve keys new"},
		"a key":               {nil, "LINGSERVE_API_KEYS=ann:lsk_secretsecret:user", "entry 1: the key in the second part is mistyped"},
		"a key's role":        {nil, "LINGSERVE_API_KEYS=ann:0123456789abcdefghij:king", "of ann: the third part is not a role"},
		"a file":              {[]string{"--auth-keys-file", "nowhere.txt"}, "", "cannot read the key file"},
		"an origin":           {[]string{"--http-origins", "*"}, "", "is not a valid origin"},
		"a host":              {[]string{"--http-hosts", "https://x"}, "", "is not a host name"},
		"a proxy":             {[]string{"--http-proxies", "0.0.0.0/0"}, "", "contains all addresses"},
		"an issuer alone":     {[]string{"--auth-issuer", "https://login.example.com/"}, "", "the audience is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("lingserve", append([]string{"serve", "--addr", "127.0.0.1:0", "--database", "memory"}, tt.args...)...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(cleanEnvironment(), tt.env)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v %s", err, out)
			}
			if strings.Contains(string(out), "secretsecret") || strings.Contains(string(out), "0123456789abcdefghij") {
				t.Errorf("a key is shown: %s", out)
			}
		})
	}
}
