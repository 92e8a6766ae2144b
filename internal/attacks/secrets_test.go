//go:build nightly

package attacks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lingserve/lingserve/internal/program"
)

// status asks a server and returns the status of its answer, and the answer.
func status(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body text
	if _, err := body.b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body.String()
}

// DA-05: where there are keys, the admin listener asks for an admin's, whatever address it has.
func TestDA_05_TheAdminListenerAsksForAKeyOnLocalhost(t *testing.T) {
	p, err := program.Start(t.Context(), binaryPath(t), t.TempDir(), &program.Options{
		Args: []string{"--admin-addr", "127.0.0.1:0", "--insecure", "--log-format", "json"},
		Env:  []string{"LINGSERVE_API_KEYS=user:" + userKey + ":user,root:" + adminKey + ":admin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	at := regexp.MustCompile(`"admin listener is open","addr":"([^"]+)"`).FindStringSubmatch(p.Log.String())
	if at == nil {
		t.Fatal(p.Log.Tail())
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=1"} {
		for key, want := range map[string]int{"": 401, "nonsense": 401, userKey: 403, adminKey: 200} {
			if got, body := status(t, "http://"+at[1]+path, key); got != want {
				t.Errorf("%s with the key %q: %d %s, expected %d", path, key, got, clip(body), want)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got, body := status(t, "http://"+at[1]+path, ""); got != 200 {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
}

// DA-12: a secret that could be guessed is refused at the start, and is not repeated.
func TestDA_12_AShortWebhookSecretIsRefused(t *testing.T) {
	path := binaryPath(t)
	for name, c := range map[string]struct{ config, says string }{
		"telegram":                   {`telegram: {token: "4242:abc", mode: webhook, public_url: "https://bot.example", secret: CANARY456789abc}`, "must have 16 to 256 characters"},
		"telegram, other letters":    {`telegram: {token: "4242:abc", mode: webhook, public_url: "https://bot.example", secret: "CANARY 0123456789"}`, "must have 16 to 256 characters"},
		"webhook":                    {`hook: {type: webhook, secret: whsec_CANARY, callback: "https://backend.example"}`, "invalid secret; expected whsec_"},
		"slack":                      {`slack: {token: xoxb-1, signing_secret: CANARY456789abc}`, "fewer than 16 characters"},
		"feishu":                     {`feishu: {app_id: cli_a1, app_secret: "0123456789abcdef", encrypt_key: CANARY456789abc}`, "fewer than 16 characters"},
		"feishu, without encryption": {`feishu: {app_id: cli_a1, app_secret: "0123456789abcdef", verification_token: CANARY456789abc}`, "fewer than 16 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte("channels:\n  "+c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, path, "serve", "--addr", "127.0.0.1:0")
			cmd.Dir, cmd.Env = dir, program.Environment(dir)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), canary) {
				t.Errorf("%v: %s\nexpected %s", err, out, c.says)
			}
		})
	}
}

// DA-14: an ID token of the issuer that the server trusts, for the audience that it has, opens nothing.
func TestDA_14_AnIDTokenOpensNothing(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jwks.json"), set, 0o600); err != nil {
		t.Fatal(err)
	}
	token := func(typ, more string) string {
		o := (&jose.SignerOptions{}).WithHeader("kid", "k")
		if typ != "" {
			o = o.WithType(jose.ContentType(typ))
		}
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, o)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := s.Sign([]byte(`{"iss":"https://login.example","aud":"ling","sub":"ann","exp":` + itoa(int(time.Now().Add(time.Hour).Unix())) + more + `}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	args := []string{"--auth-issuer", "https://login.example", "--auth-audience", "ling", "--auth-jwks", "jwks.json", "--data", ""}
	for _, s := range []struct {
		more []string
		jwt  int // the status of an access token that is called JWT
	}{{nil, 401}, {[]string{"--auth-token-types", "at+jwt,JWT"}, 200}} {
		p, err := program.Start(t.Context(), binaryPath(t), dir, &program.Options{Args: append(args, s.more...)})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
		for _, c := range []struct {
			typ, more string
			want      int
			says      string
		}{
			{"at+jwt", "", 200, ""},
			{"application/AT+JWT", "", 200, ""},
			{"", "", 200, ""},
			{"JWT", "", s.jwt, ""},
			{"JWT", `,"nonce":"n"`, 401, "ID token"},
			{"JWT", `,"at_hash":"n"`, 401, "ID token"},
			{"", `,"nonce":"n"`, 401, "this is an ID token; send an access token"},
			{"logout+jwt", "", 401, "auth.token_types"},
		} {
			if got, body := status(t, p.URL+"/v1/workflows", token(c.typ, c.more)); got != c.want || !strings.Contains(body, c.says) {
				t.Errorf("%s, type %q%s: %d %s", s.more, c.typ, c.more, got, clip(body))
			}
		}
	}
}

// DA-11: a secret in a flag can be read in the list of processes, which the log says with what to do; it does not repeat the secret.
func TestDA_11_ASecretInAFlagIsWarnedOf(t *testing.T) {
	p, err := program.Start(t.Context(), binaryPath(t), t.TempDir(), &program.Options{Args: []string{
		"--log-format", "json", "--auth-keys", "ann:" + canary + "0123456789abcd:user", "--tape-postgres-url", "postgres://ling:" + canary + "@db/ling", "--providers-openai-key", "sk-" + canary,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	log := p.Log.String()
	for _, says := range []string{
		"--auth-keys contains a secret, which every user of this machine can read in the list of processes; use --auth-keys-file, or the environment variable LINGSERVE_AUTH_KEYS",
		"--tape-postgres-url contains a secret", "LINGSERVE_TAPE_POSTGRES_URL, or tape.postgres.url: {file: PATH} in the configuration file",
		"--providers-openai-key contains a secret", "OPENAI_API_KEY",
	} {
		if !strings.Contains(log, says) {
			t.Errorf("the log does not say %q", says)
		}
	}
	if strings.Count(log, `"level":"WARN"`) < 3 || strings.Contains(log, canary) {
		t.Error(log)
	}
}
