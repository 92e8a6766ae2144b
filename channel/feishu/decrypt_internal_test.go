package feishu

import (
	"strings"
	"testing"
)

// The platform's own examples: of its page on decryption, and of its page on the Encrypt Key.
func TestThePlatformsExamplesAreDecrypted(t *testing.T) {
	if got, err := encryptKey("test key").decrypt("P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="); err != nil || string(got) != "hello world" {
		t.Errorf("got %q, %v", got, err)
	}
	got, err := encryptKey("kudryavka").decrypt("FIAfJPGRmFZWkaxPQ1XrJZVbv2JwdjfLk4jx0k/U1deAqYK3AXOZ5zcHt/cC4ZNTqYwWUW/EoL+b2hW/C4zoAQQ5CeMtbxX2zHjm+E4nX/Aww+FHUL6iuIMaeL2K" +
		"LxqdtbHRC50vgC2YI7xohnb3KuCNBMUzLiPeNIpVdnYaeteCmSaESb+AZpJB9PExzTpRDzCRv+T6o5vlzaE8UgIneC1sYu85BnPBEMTSuj1ZZzfdQi7ZW992Z4dmJxn9e8FL" +
		"2VArNm99f5Io3c2O4AcNsQENNKtfAAxVjCqc3mg5jF0nKabA+u/5vrUD76flX1UOF5fzJ0sApG2OEn9wfyPDRBsApn9o+fceF9hNrYBGsdtZrZYyGG387CGOtKsuj8e2E8SN" +
		"p+Pn4E9oYejOTR+ZNLNi+twxaXVlJhr6l+RXYwEiMGQE9zGFBD6h2dOhKh3W84p1GEYnSRIz1+9/Hp66arjC7RCrhuW5OjCj4QFEQJiwgL45XryxHtiZ7JdAlPmjVsL03Cxx" +
		"FZarzxzffryrWUG3VkRdHRHbTsC34+ScoL5MTDU1QAWdqUC1T7xT0lCvQELaIhBTXAYrznJl6PlA83oqlMxpHh0gZBB1jFbfoUr7OQbBs1xqzpYK6Yjux6diwpQB1zlZErYJ" +
		"UfCqK7G/zI9yK/60b4HW0k3M+AvzMcw=")
	if err != nil || !strings.Contains(string(got), `"uuid":"5226cd85b4d843dccee2e279d93f3ed3"`) {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzDecrypt(f *testing.F) {
	f.Add("test key", "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk=")
	f.Add("k", "")
	f.Add("k", strings.Repeat("A", 64))
	f.Fuzz(func(t *testing.T, key, text string) {
		if got, err := encryptKey(key).decrypt(text); err != nil && (err != errDecrypt || got != nil) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

func FuzzContent(f *testing.F) {
	f.Add("text", `{"text":"@_user_1 hi @_all"}`)
	f.Add("post", `{"title":"t","content":[[{"tag":"at","user_id":"@_user_1"},{"tag":"img","image_key":"k"}]]}`)
	f.Add("post", `{"en_us":{"content":[[{"tag":"md","text":"x"}]]}}`)
	f.Add("location", `{"latitude":1,"longitude":"2"}`)
	f.Fuzz(func(t *testing.T, kind, content string) {
		m := message{ID: "m", Type: kind, Content: content, Mentions: []mention{{Key: "@_user_1", ID: userID{Open: "me"}, Name: "Me"}}}
		c := m.read()
		withNames(c.text, m.Mentions, "me")
		for _, file := range c.files {
			if file.Source == "" {
				t.Fatal("a file without a source")
			}
		}
	})
}
