package feishu

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// The two examples are the platform's own: the short one of its page on decrypting, and the event of its page on the Encrypt Key.
const (
	shortKey, shortSealed = "test key", "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="

	eventKey    = "kudryavka"
	eventSealed = "FIAfJPGRmFZWkaxPQ1XrJZVbv2JwdjfLk4jx0k/U1deAqYK3AXOZ5zcHt/cC4ZNTqYwWUW/EoL+b2hW/C4zoAQQ5CeMtbxX2zHjm+E4nX/Aww+FHUL6iuIMaeL2K" +
		"LxqdtbHRC50vgC2YI7xohnb3KuCNBMUzLiPeNIpVdnYaeteCmSaESb+AZpJB9PExzTpRDzCRv+T6o5vlzaE8UgIneC1sYu85BnPBEMTSuj1ZZzfdQi7ZW992Z4dmJxn9e8FL" +
		"2VArNm99f5Io3c2O4AcNsQENNKtfAAxVjCqc3mg5jF0nKabA+u/5vrUD76flX1UOF5fzJ0sApG2OEn9wfyPDRBsApn9o+fceF9hNrYBGsdtZrZYyGG387CGOtKsuj8e2E8SN" +
		"p+Pn4E9oYejOTR+ZNLNi+twxaXVlJhr6l+RXYwEiMGQE9zGFBD6h2dOhKh3W84p1GEYnSRIz1+9/Hp66arjC7RCrhuW5OjCj4QFEQJiwgL45XryxHtiZ7JdAlPmjVsL03Cxx" +
		"FZarzxzffryrWUG3VkRdHRHbTsC34+ScoL5MTDU1QAWdqUC1T7xT0lCvQELaIhBTXAYrznJl6PlA83oqlMxpHh0gZBB1jFbfoUr7OQbBs1xqzpYK6Yjux6diwpQB1zlZErYJ" +
		"UfCqK7G/zI9yK/60b4HW0k3M+AvzMcw="
)

func TestThePlatformsOwnExamplesAreDecrypted(t *testing.T) {
	if got, err := newSeal(shortKey).open(shortSealed); err != nil || string(got) != "hello world" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err := newSeal(eventKey).open(eventSealed)
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		UUID  string `json:"uuid"`
		Type  string `json:"type"`
		Token string `json:"token"`
		Event struct {
			Type string `json:"type"`
		} `json:"event"`
	}
	if err := json.Unmarshal(got, &event); err != nil {
		t.Fatal(err)
	}
	if event.UUID != "5226cd85b4d843dccee2e279d93f3ed3" || event.Type != "event_callback" || event.Event.Type != "user_status_change" ||
		event.Token != "GzhQEyfUcx7eEungQFWtXgCbxSpUOJIb" {
		t.Errorf("got %+v", event)
	}
}

func TestWhatIsEncryptedIsDecryptedAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, plain := rapid.String().Draw(t, "key"), rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		text := fakefeishu.Encrypt(key, plain)
		got, err := newSeal(key).open(text)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("got %q, %v", got, err)
		}
		if got, err := newSeal(key + "x").open(text); err == nil && bytes.Equal(got, plain) {
			t.Fatal("another key opens it, too")
		}
	})
}

func TestEveryFaultOfACiphertextIsTheSame(t *testing.T) {
	sealed, err := base64.StdEncoding.DecodeString(fakefeishu.Encrypt("k", []byte("sixteen bytes and some more")))
	if err != nil {
		t.Fatal(err)
	}
	padded := func(end ...byte) string { // a last block with such an end
		sum := sha256.Sum256([]byte("k"))
		block, err := aes.NewCipher(sum[:])
		if err != nil {
			t.Fatal(err)
		}
		out := make([]byte, 32)
		copy(out[32-len(end):], end)
		cipher.NewCBCEncrypter(block, out[:16]).CryptBlocks(out[16:], out[16:])
		return base64.StdEncoding.EncodeToString(out)
	}
	for name, text := range map[string]string{
		"nothing":                "",
		"no base64":              "!!!!",
		"base64 without its end": shortSealed[:43],
		"an IV alone":            base64.StdEncoding.EncodeToString(sealed[:16]),
		"half a block":           base64.StdEncoding.EncodeToString(sealed[:40]),
		"one byte less":          base64.StdEncoding.EncodeToString(sealed[:len(sealed)-1]),
		"the last block is gone": base64.StdEncoding.EncodeToString(sealed[:32]),
		"padding of nothing":     padded(0),
		"padding of 17":          padded(17),
		"padding of 255":         padded(255),
		"padding that differs":   padded(3, 4, 4, 4),
		"padding cut by a byte":  padded(9, 2),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := newSeal("k").open(text); err != errSealed || got != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if got, err := newSeal("k").open(padded(bytes.Repeat([]byte{16}, 16)...)); err != nil || len(got) != 0 {
		t.Errorf("a block of padding alone: got %q, %v", got, err)
	}
}

func FuzzDecrypt(f *testing.F) {
	f.Add(shortKey, shortSealed)
	f.Add(eventKey, eventSealed)
	f.Add("k", "")
	f.Add("k", strings.Repeat("A", 64))
	f.Fuzz(func(t *testing.T, key, text string) {
		got, err := newSeal(key).open(text)
		if err != nil {
			if err != errSealed || got != nil {
				t.Fatalf("got %q, %v", got, err)
			}
			return
		}
		if data, _ := base64.StdEncoding.DecodeString(text); len(got) > len(data)-aes.BlockSize-1 || len(got) < len(data)-2*aes.BlockSize {
			t.Fatalf("%d bytes of %d", len(got), len(data))
		}
	})
}

func TestASignatureIsOfTheBodyTheTimeAndTheKey(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	sign := func(timestamp, nonce, key, body string) string {
		sum := sha256.Sum256([]byte(timestamp + nonce + key + body))
		return hex.EncodeToString(sum[:])
	}
	good := sign("1700000000", "n", "k", "body")
	for name, tt := range map[string]struct {
		signature, timestamp, nonce, body string
		now                               time.Time
		ok                                bool
	}{
		"as it should be":        {good, "1700000000", "n", "body", now, true},
		"5 minutes ago":          {good, "1700000000", "n", "body", now.Add(5 * time.Minute), true},
		"from a clock ahead":     {good, "1700000000", "n", "body", now.Add(-5 * time.Minute), true},
		"too old":                {good, "1700000000", "n", "body", now.Add(5*time.Minute + time.Second), false},
		"too new":                {good, "1700000000", "n", "body", now.Add(-5*time.Minute - time.Second), false},
		"another body":           {good, "1700000000", "n", "bodY", now, false},
		"another nonce":          {good, "1700000000", "m", "body", now, false},
		"another time":           {good, "1700000001", "n", "body", now, false},
		"with another key":       {sign("1700000000", "n", "K", "body"), "1700000000", "n", "body", now, false},
		"in capitals":            {strings.ToUpper(good), "1700000000", "n", "body", now, false},
		"the beginning of it":    {good[:40], "1700000000", "n", "body", now, false},
		"of a time that is none": {sign("now", "n", "k", "body"), "now", "n", "body", now, false},
		"without a time":         {sign("", "n", "k", "body"), "", "n", "body", now, false},
	} {
		t.Run(name, func(t *testing.T) {
			if ok := newSeal("k").signed(tt.signature, tt.timestamp, tt.nonce, []byte(tt.body), tt.now); ok != tt.ok {
				t.Errorf("%v", ok)
			}
		})
	}
}
