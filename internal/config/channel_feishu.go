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

var feishuSettings = settingsIn(func(ch *Channel) *Feishu { return &ch.Feishu }, []Setting{
	{Key: "app_id", Help: "id of the app, cli_…, from its page Credentials & Basic Info"},
	{Key: "app_secret", Secret: true, Help: "secret of the app, from the same page"},
	{Key: "encrypt_key", Secret: true, Help: "key that encrypts and signs events, from Events & Callbacks, Encryption Strategy"},
	{Key: "verification_token", Secret: true, Help: "token in events, from the same page; set this or encrypt_key"},
	{
		Key: "api", Default: "https://open.feishu.cn", check: unlessEmpty(checkURL),
		Help: "address of the server API; https://open.larksuite.com for Lark",
	},
	{
		Key: "preview", Default: "edit", OneOf: []string{"edit", "off"},
		Help: "what people see of an unfinished answer: a growing card, or nothing",
	},
	{
		Key: "format", Default: "card", OneOf: []string{"card", "text"},
		Help: "form of answers: cards with markup, or plain texts, which cannot grow",
	},
	{Key: "max_media", Default: "10MiB", Min: "0B", Help: "maximum size of a file; the platform allows 100MB"},
})
