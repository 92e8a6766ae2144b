package config

// Feishu has the settings of a channel of type feishu; see package channel/feishu.
type Feishu struct {
	AppID             string
	AppSecret         Secret
	EncryptKey        Secret
	VerificationToken Secret
	API               string
	Preview           string
	Format            string
	MaxMedia          Size
}

func feishuSettings(at string, of func(*Config) *Channel) []Setting {
	return []Setting{
		{
			Key:   at + "app_id",
			Help:  "id of the app, cli_…, as its page Credentials & Basic Info shows it",
			field: func(c *Config) any { return &of(c).Feishu.AppID },
		},
		{
			Key: at + "app_secret", Secret: true,
			Help:  "secret of the app, from the same page",
			field: func(c *Config) any { return &of(c).Feishu.AppSecret },
		},
		{
			Key: at + "encrypt_key", Secret: true,
			Help:  "what the platform encrypts and signs events with: Events & Callbacks, Encryption Strategy",
			field: func(c *Config) any { return &of(c).Feishu.EncryptKey },
		},
		{
			Key: at + "verification_token", Secret: true,
			Help:  "what the platform puts into events, from the same page; this or encrypt_key has to be set",
			field: func(c *Config) any { return &of(c).Feishu.VerificationToken },
		},
		{
			Key: at + "api", Default: "https://open.feishu.cn", check: checkURL,
			Help:  "address of the server API; https://open.larksuite.com for Lark",
			field: func(c *Config) any { return &of(c).Feishu.API },
		},
		{
			Key: at + "preview", Default: "edit", OneOf: []string{"edit", "off"},
			Help:  "what is shown of an answer before it is finished: a card that grows, nothing",
			field: func(c *Config) any { return &of(c).Feishu.Preview },
		},
		{
			Key: at + "format", Default: "card", OneOf: []string{"card", "text"},
			Help:  "how answers are written: cards with markup, or plain texts, which cannot grow",
			field: func(c *Config) any { return &of(c).Feishu.Format },
		},
		{
			Key: at + "max_media", Default: "10MiB", Min: "0B",
			Help:  "size of a file that is loaded; the platform gives 100MB at most",
			field: func(c *Config) any { return &of(c).Feishu.MaxMedia },
		},
	}
}
