package redact_test

// known are secrets and identifiers that MUST NOT be on record: each with what
// it is, and its kind where it stands alone. They are examples from public
// documentation, or made with valid check digits; none is anybody's.
func known() []sample {
	return []sample{
		{"AWS access key id", "AKIAIOSFODNN7EXAMPLE", "secret"},
		{"AWS secret access key", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "opaque"},
		{"Stripe live key", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "secret"},
		{"Stripe restricted key", "rk_test_" + "51H8xyzAbCdEf123", "secret"},
		{"GitHub token", "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "secret"},
		{"GitHub fine-grained token", "github_pat_" + "11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz", "secret"},
		{"GitLab token", "glpat-" + "ABCdef123456_7890xyz", "secret"},
		{"Slack token", "xoxb-" + "123456789012-abcdefghijkl", "secret"},
		{"Google API key", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "secret"},
		{"SendGrid key", "SG." + "abcdefghijklmnopqrstuv.wxyzABCDEFGHIJKLMNOP", "secret"},
		{"OpenAI-like key", "sk-" + "abc123def456ghi789jkl012", "secret"},
		{"signing secret", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "secret"},
		{"NKEY seed", "SUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM", "opaque"},
		{"hex key", "9f86d081884c7d659a2feaa0c55ad015", "opaque"},
		{"JSON web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
			"jwt"},
		{"bearer token", "Bearer mF_9.B5f-4.1JqM", "secret"},
		{"basic credentials", "Basic dXNlcjpwdw==", "secret"},
		{"base64 of credentials", "YWRtaW46aHVudGVyMg==", "secret"},
		{"PEM", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIHVz\n-----END PRIVATE KEY-----", "private_key"},
		{"cookie header", "Set-Cookie: sid=31d4d96e407aad42; Path=/", "cookie"},
		{"authorization header", `Authorization: Digest username="mufasa", response="6629fae"`, "secret"},
		{"API key header", "X-Api-Key: abcdef", "secret"},
		{"password in JSON", `"password":"hunter2 and more"`, "secret"},
		{"password in a form", "&password=hunter2&", "secret"},
		{"URL with a password", "https://jane:hunter2@example.com/", "userinfo"},
		{"URL with a query", "https://example.com/cb?code=s3cr3t&state=xyz", "query"},
		{"e-mail address", "jane.doe+x@mail.example.co.uk", "email"},
		{"quoted e-mail address", `"jane doe"@example.com`, "email"},
		{"phone number", "+49 30 123456", "phone"},
		{"phone number in brackets", "(555) 555-0100", "phone"},
		{"German IBAN", "DE89 3704 0044 0532 0130 00", "iban"},
		{"British IBAN", "GB82WEST12345698765432", "iban"},
		{"card", "4111 1111 1111 1111", "card"},
		{"American Express", "3782-822463-10005", "card"},
		{"US SSN", "078-05-1120", "national_id"},
		{"UK NHS number", "943 476 5919", "national_id"},
		{"UK National Insurance number", "AB 12 34 56 C", "national_id"},
		{"German KVNR", "A123456780", "national_id"},
		{"German Steuer-ID", "86 095 742 719", "national_id"},
		{"French NIR", "2 55 08 14 168 025 38", "national_id"},
		{"French NIR of Corsica", "2 84 05 2A 004 003 69", "national_id"},
		{"Swiss AHV", "756.9217.0769.85", "national_id"},
		{"Dutch BSN", "111222333", "national_id"},
		{"Italian codice fiscale", "RSSMRA85T10A562S", "national_id"},
		{"Spanish DNI", "12345678Z", "national_id"},
		{"Spanish NIE", "X1234567L", "national_id"},
		{"Irish PPS", "1234567T", "national_id"},
		{"Indian Aadhaar", "2341 2341 2346", "national_id"},
		{"Indian PAN", "ABCPE1234F", "national_id"},
		{"Brazilian CPF", "529.982.247-25", "national_id"},
		{"Polish PESEL", "44051401359", "national_id"},
		{"Belgian national number", "85.07.30-033.28", "national_id"},
		{"Swedish personnummer", "811218-9876", "national_id"},
		{"Finnish HETU", "010100A123D", "national_id"},
		{"Mexican CURP", "HEGG560427MVZRRL04", "national_id"},
		{"medical record number", "00012345678", "number"},
		{"MRN by name", "MRN 4711123", "personal"},
		{"date of birth", "born on 12 March 1980", "birth"},
		{"date of birth in JSON", `"birthDate":"1980-03-12"`, "birth"},
		{"date of birth in German", `"geburtsdatum": "12.03.1980"`, "birth"},
		{"diagnosis", `"diagnosis":"F32.1 moderate depressive episode"`, "personal"},
		{"name in JSON", `{"patient":{"firstName":"Jane","lastName":"Doe"}}`, "personal"},
	}
}

type sample struct{ name, text, kind string }

// core is what of a sample must go: what stands behind a name or scheme.
func (s sample) core() []string {
	switch s.name {
	case "bearer token":
		return []string{"mF_9.B5f-4.1JqM"}
	case "basic credentials":
		return []string{"dXNlcjpwdw"}
	case "cookie header":
		return []string{"31d4d96e407aad42"}
	case "authorization header":
		return []string{"mufasa", "6629fae"}
	case "API key header":
		return []string{"abcdef"}
	case "password in JSON", "password in a form", "URL with a password":
		return []string{"hunter2"}
	case "URL with a query":
		return []string{"s3cr3t", "xyz"}
	case "PEM":
		return []string{"MC4CAQAwBQYDK2VwBCIEIHVz"}
	case "MRN by name":
		return []string{"4711123"}
	case "date of birth":
		return []string{"1980"}
	case "date of birth in JSON":
		return []string{"1980-03-12"}
	case "date of birth in German":
		return []string{"12.03.1980"}
	case "diagnosis":
		return []string{"F32.1", "depressive"}
	case "name in JSON":
		return []string{"Jane", "Doe"}
	}
	return []string{s.text}
}
