package access_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

func TestADoorFindsOutWhoSendsARequest(t *testing.T) {
	key, text := access.NewKey(bob, time.Time{})
	expired, expiredText := access.NewKey(ann, time.Now().Add(-time.Hour))
	is := newIssuer("es")
	token := sign("es", "ES256", good(nil), nil)
	door := &access.Door{
		Keys:    newKeys(t, access.KeysOptions{Entries: []string{key.Entry(), expired.Entry(), "eve:ey." + foreign + ":user"}}),
		Tokens:  newTokens(t, is, nil),
		Tickets: newTickets(t, access.TicketsOptions{}),
	}
	for name, tc := range map[string]struct {
		headers []string
		query   string
		want    access.Visitor
		err     error
	}{
		"a key":                     {[]string{"Bearer " + text}, "", access.Visitor{Principal: bob, By: "key", Key: key.ID}, nil},
		"in another case":           {[]string{"bearer  " + text}, "", access.Visitor{Principal: bob, By: "key", Key: key.ID}, nil},
		"a token":                   {[]string{"Bearer " + token}, "", access.Visitor{Principal: access.Principal{Name: "ann@sso"}, By: "token"}, nil},
		"a key that begins as one":  {[]string{"Bearer ey." + foreign}, "", access.Visitor{Principal: access.Principal{Name: "eve"}, By: "key"}, nil},
		"a ticket":                  {nil, "ticket=" + issue(t, door.Tickets, ann, "/v1/runs"), access.Visitor{Principal: ann, By: "ticket"}, nil},
		"a key beside a ticket":     {[]string{"Bearer " + text}, "ticket=x", access.Visitor{Principal: bob, By: "key", Key: key.ID}, nil},
		"nothing":                   {nil, "", access.Visitor{}, access.ErrNobody},
		"a key in the query":        {nil, "key=" + text + "&access_token=" + text, access.Visitor{}, access.ErrNobody},
		"a key for a ticket":        {nil, "ticket=" + text, access.Visitor{}, access.ErrTicket},
		"two tickets":               {nil, "ticket=a&ticket=b", access.Visitor{}, access.ErrNobody},
		"a wrong key and a ticket":  {[]string{"Bearer x"}, "ticket=" + issue(t, door.Tickets, ann, "/v1/runs"), access.Visitor{}, access.ErrUnknownKey},
		"an expired key":            {[]string{"Bearer " + expiredText}, "", access.Visitor{Key: expired.ID}, access.ErrExpiredKey},
		"a key that nobody has":     {[]string{"Bearer " + foreign + "x"}, "", access.Visitor{}, access.ErrUnknownKey},
		"a token of another key":    {[]string{"Bearer " + sign("foreign", "RS256", good(nil), nil)}, "", access.Visitor{}, access.ErrUnknownSigner},
		"a user and a password":     {[]string{"Basic YTpi"}, "", access.Visitor{}, access.ErrCredential},
		"only the scheme":           {[]string{"Bearer"}, "", access.Visitor{}, access.ErrCredential},
		"only blanks":               {[]string{"Bearer   "}, "", access.Visitor{}, access.ErrCredential},
		"no scheme":                 {[]string{text}, "", access.Visitor{}, access.ErrCredential},
		"two keys":                  {[]string{"Bearer " + text + " " + text}, "", access.Visitor{}, access.ErrCredential},
		"two headers":               {[]string{"Bearer " + text, "Bearer " + text}, "", access.Visitor{}, access.ErrCredential},
		"an empty one and a ticket": {[]string{""}, "ticket=x", access.Visitor{}, access.ErrCredential},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("/v1/runs?" + tc.query)
			for _, h := range tc.headers {
				r.Header.Add("Authorization", h)
			}
			r.AddCookie(&http.Cookie{Name: "key", Value: text})
			r.Header.Set("X-Api-Key", text)
			got, err := door.Enter(r)
			if tc.want.Name == "eve" {
				got.Key = ""
			}
			if !errors.Is(err, tc.err) || got.Name != tc.want.Name || got.Role != tc.want.Role || got.By != tc.want.By || got.Key != tc.want.Key {
				t.Fatalf("%+v %v, want %+v %v", got, err, tc.want, tc.err)
			}
			if err == nil {
				return
			}
			refusal, _ := errors.AsType[*access.Refusal](err)
			challenge := refusal.Challenge()
			if !strings.HasPrefix(challenge, `Bearer realm="lingserve"`) || strings.Contains(challenge, "invalid_token") == (err == access.ErrNobody) ||
				strings.Contains(challenge, text) || strings.Contains(challenge, "\n") || strings.Count(challenge, `"`)%2 != 0 {
				t.Errorf("%q", challenge)
			}
		})
	}
}

func TestADoorWithoutKeysAndTokensIsOpen(t *testing.T) {
	for name, door := range map[string]*access.Door{"no door": nil, "nothing": {}, "tickets alone": {Tickets: newTickets(t, access.TicketsOptions{})}} {
		r := get("/")
		r.Header.Set("Authorization", "Bearer whatever")
		if v, err := door.Enter(r); err != nil || v.Name != access.Local.Name || !v.Administers() || v.Owner() != "" || !door.Open() {
			t.Errorf("%s: %+v %v", name, v, err)
		}
	}
	// One with an empty list of keys is not: nobody has one.
	door := &access.Door{Keys: newKeys(t, access.KeysOptions{})}
	if v, err := door.Enter(get("/")); !errors.Is(err, access.ErrNobody) || !v.Unknown() || door.Open() {
		t.Errorf("%+v %v", v, err)
	}
	tokens := &access.Door{Tokens: newTokens(t, newIssuer("es"), nil)}
	r := get("/")
	r.Header.Set("Authorization", "Bearer "+foreign)
	if v, err := tokens.Enter(r); !errors.Is(err, access.ErrMalformedToken) || !v.Unknown() {
		t.Errorf("%+v %v", v, err)
	}
}

// SE-06, SE-10: whatever is sent, nothing of it is said again.
func FuzzEnter(f *testing.F) {
	key, text := access.NewKey(bob, time.Time{})
	keys, err := access.NewKeys(access.KeysOptions{Entries: []string{key.Entry()}})
	must(err)
	f.Cleanup(keys.Close)
	tokens, err := access.NewTokens(access.TokensOptions{
		Issuer: issuerURL, Audiences: []string{"lingserve"}, Keys: "https://login.example.com/keys", Transport: newIssuer("es"),
	})
	must(err)
	f.Cleanup(tokens.Close)
	door := &access.Door{Keys: keys, Tokens: tokens, Tickets: newTickets(f, access.TicketsOptions{})}
	f.Add("Bearer "+text[:30], "")
	f.Add("", "ticket=lst_"+strings.Repeat("a", 32))
	f.Add("Bearer ey.ey.ey", "ticket=%zz")
	f.Add("Basic", "&&ticket=;")
	f.Fuzz(func(t *testing.T, header, query string) {
		r := &http.Request{Method: "GET", Header: http.Header{}, URL: &url.URL{Path: "/v1/runs", RawQuery: query}}
		if header != "" {
			r.Header["Authorization"] = []string{header}
		}
		v, err := door.Enter(r)
		refusal, ok := errors.AsType[*access.Refusal](err)
		if !ok || !v.Unknown() || refusal.Status != http.StatusUnauthorized {
			t.Fatalf("%q %q: %+v %v", header, query, v, err)
		}
		if secret := strings.TrimPrefix(header, "Bearer "); len(secret) > 12 && strings.Contains(err.Error()+refusal.Challenge(), secret) {
			t.Fatalf("%q: %v", header, err)
		}
	})
}

// SE-06: a principal, a key and a refusal can be printed and logged in any way.
func TestNothingThatIsPrintedHoldsASecret(t *testing.T) {
	key, text := access.NewKey(bob, time.Time{})
	keys := newKeys(t, access.KeysOptions{Entries: []string{key.Entry()}})
	found, err := keys.Find(text)
	must(err)
	_, wrong := keys.Find(text + "a")
	var b lines
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "key", *found, "by", found.Principal, "error", wrong, "all", keys.All())
	encoded, err := json.Marshal(found)
	must(err)
	all := fmt.Sprintf("%v %+v %#v %v %s %s", *found, *found, wrong, keys.All(), b.String(), encoded)
	if strings.Contains(all, text[13:25]) {
		t.Error(all)
	}
}

// A handler asks who it is, then what they may.
func ExampleDoor() {
	key, text := access.NewKey(access.Principal{Name: "ann", Role: tool.User}, time.Time{})
	keys, err := access.NewKeys(access.KeysOptions{Entries: []string{key.Entry()}})
	if err != nil {
		panic(err)
	}
	defer keys.Close()
	door := &access.Door{Keys: keys}

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visitor, err := door.Enter(r)
		if refusal, ok := errors.AsType[*access.Refusal](err); ok {
			w.Header().Set("WWW-Authenticate", refusal.Challenge())
			http.Error(w, refusal.Detail, refusal.Status)
			return
		}
		fmt.Fprintln(w, visitor.Name, visitor.Runs("encyclopedia"), visitor.Administers())
	})

	for _, header := range []string{"Bearer " + text, "Bearer " + text[:20], ""} {
		r := httptest.NewRequest("GET", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 ann true false
	// 401 the API key is mistyped or incomplete, because its checksum is wrong; copy it again
	// 401 this request needs an API key; send the header Authorization: Bearer KEY
}
