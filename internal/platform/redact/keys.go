package redact

import (
	"strings"
	"unicode"
)

// Key is a name that says what its value is.
type Key struct {
	Kind Kind
	What string // for people
	// Weak names say it of one value in a few only ("name", "address"): they
	// are no reason to remove it, but one to look.
	Weak bool
	// Removed are weak names whose value is removed all the same: what it is a few
	// times is worse to keep than what it is at other times is to lose.
	Removed bool
}

// removes says that the name is reason enough to remove its value.
func (k Key) removes() bool { return !k.Weak || k.Removed }

// vocabulary lists names, lower-case and without joins, by what they say of
// their value. A longer name means the same when it ends with one of them:
// client_secret, patientBirthDate.
func vocabulary() map[string]Key {
	m := map[string]Key{}
	add := func(k Key, names string) {
		for _, n := range strings.Fields(names) {
			m[n] = k
		}
	}
	add(Key{Kind: Secret, What: "a credential"}, `password passwd pwd passphrase passcode passwort kennwort motdepasse contraseña contrasena
		senha parola wachtwoord lösenord hasło secret secretkey secrettoken clientsecret token apikey apitoken accesskey accesskeyid secretaccesskey
		accesstoken refreshtoken idtoken sessiontoken authtoken csrftoken xsrftoken csrf xsrf privatekey signingkey encryptionkey sharedkey
		masterkey authkey subscriptionkey functionskey xapikey session sessionid sessid phpsessid jsessionid auth
		credential credentials jwt bearer otp totp onetimecode cvv cvc cvv2 securitycode signature xhubsignature webhooksignature connectionstring dsn`)
	add(Key{Kind: Secret, What: authorization}, `authorization proxyauthorization`)
	add(Key{Kind: Cookie, What: "a cookie"}, `cookie cookies setcookie cookie2 setcookie2`)
	add(Key{Kind: Birth, What: "a date of birth"}, `birthdate birthday dateofbirth dob birthyear yearofbirth geburtsdatum geburtstag gebdatum geb datedenaissance
		naissance fechadenacimiento fechanacimiento nacimiento datadinascita datanascita datadenascimento datanascimento geboortedatum födelsedatum
		fødselsdato dataurodzenia`)
	add(Key{Kind: NationalID, What: "an identifier of a person"}, `ssn socialsecuritynumber socialsecurity nationalid nationalinsurancenumber nino nhsnumber nhsno
		taxid tin steuerid steueridentifikationsnummer steuernummer sozialversicherungsnummer svnr versichertennummer krankenversichertennummer kvnr
		ahvnummer ahv avs numeroavs numerosecuritesociale securitesociale nir insee bsn burgerservicenummer codicefiscale dni nie nif cpf aadhaar aadhar
		pan pesel personnummer fødselsnummer passport passportnumber passportno reisepass reisepassnummer ausweisnummer personalausweis idcard
		driverlicense driverslicense driverslicensenumber führerschein curp rrn residentnumber`)
	add(Key{Kind: Personal, What: "a person's name"}, `firstname lastname surname fullname givenname familyname maidenname middlename patientname
		membername customername cardholder cardholdername holdername accountholder vorname nachname familienname geburtsname patientenname prenom prénom
		nomdefamille nombre apellido apellidos nome cognome sobrenome voornaam achternaam förnamn efternamn imię nazwisko`)
	add(Key{Kind: Personal, What: "contact data"}, `email emailaddress mail mailaddress emailadresse correo correoelectronico courriel phone phonenumber
		telephone mobile mobilephone mobilenumber cellphone fax faxnumber telefon telefonnummer handynummer mobilnummer telefono teléfono telefone celular
		telefoonnummer msisdn street streetaddress addressline addressline1 addressline2 homeaddress postaladdress billingaddress shippingaddress
		straße strasse anschrift wohnort adresse direccion dirección indirizzo endereço endereco adres postcode postalcode zipcode plz codepostal`)
	add(Key{Kind: Personal, What: "data about a person's health"}, `diagnosis diagnoses diagnosiscode diagnose diagnosen diagnostic diagnostico diagnóstico diagnosi
		icd icd9 icd10 icdcode snomed medication medications medikament medikamente médicament medicamento prescription prescriptions rezept ordonnance
		receta symptom symptoms symptome allergy allergies allergie allergien labresult labresults labvalue befund laborbefund bloodtype bloodgroup
		blutgruppe bloodpressure healthcondition treatment behandlung therapy therapie disability behinderung pregnancy schwangerschaft
		hivstatus vitals vitalsigns anamnesis anamnese clinicalnote clinicalnotes`)
	add(Key{Kind: Personal, What: "an identifier of a patient"}, `mrn medicalrecordnumber medicalrecord patientid patientnumber patientno patientennummer
		fallnummer numeropatient chartnumber memberid insuranceid insurancenumber policyholderid subscriberid hospitalnumber`)
	add(Key{Kind: Personal, What: "a special category of personal data"}, `religion konfession ethnicity ethnie race sexualorientation gender sex geschlecht
		maritalstatus familienstand nationality staatsangehörigkeit politicalopinion`)
	add(Key{Kind: Personal, What: "bank data"}, `iban bic accountnumber bankaccount bankaccountnumber kontonummer kontonr cardnumber ccnumber creditcard creditcardnumber
		creditcardno numerocarta kreditkarte kreditkartennummer salary gehalt income einkommen`)
	add(Key{Kind: Personal, What: "perhaps a person's name", Weak: true},
		`name username login contact person recipient author nom naam namn nazwa`)
	add(Key{Kind: Personal, What: "perhaps a person's name", Weak: true, Removed: true}, `nickname displayname patient`)
	add(Key{Kind: Secret, What: "perhaps a session's id", Weak: true, Removed: true}, `sid connectsid`)
	add(Key{Kind: Personal, What: "perhaps contact data", Weak: true},
		`address city town ort ville ciudad tel zip ipaddress ip latitude longitude geo location`)
	add(Key{Kind: Personal, What: "free text, in which people write anything", Weak: true}, `notes note comment comments remark remarks bemerkung
		freetext message description text body content html`)
	add(Key{Kind: Personal, What: "perhaps data about a person's health", Weak: true},
		`age alter weight height bmi medical health clinical condition lab result results`)
	return m
}

var words = vocabulary()

// impersonal are the parts of a name behind which an address, name or number is
// a machine's: ip_address, host_name, file name.
var impersonal = map[string]bool{"ip": true, "remote": true, "mac": true, "host": true, "server": true, "bind": true,
	"listen": true, "file": true,
	"event": true, "class": true, "method": true, "function": true, "service": true, "product": true, "queue": true,
	"topic": true, "field": true,
	"error": true, "http": true, "status": true, "type": true, "exception": true}

// LookUp says what a name, as in a JSON object, says of its value: the
// vocabulary's entry for the whole of it, or for its last one to four parts.
func LookUp(name string) (Key, bool) { return lookUp(name, nil) }

func lookUp(name string, more map[string]Key) (Key, bool) { return lookUpBytes([]byte(name), more) }

// lookUpBytes allocates nothing for names in ASCII: it is asked for whatever
// stands before a colon.
func lookUpBytes(name []byte, more map[string]Key) (Key, bool) {
	if len(name) == 0 || len(name) > maxKey {
		return Key{}, false
	}
	var buf [maxKey]byte
	var starts [16]int
	text, begins := splitASCII(name, buf[:0], starts[:0])
	if text == nil {
		text, begins = splitAny(name)
	}
	for n := min(len(begins), 4); n >= 1; n-- {
		start := begins[len(begins)-n]
		k, ok := more[string(text[start:])]
		if !ok {
			k, ok = words[string(text[start:])]
		}
		if !ok {
			continue
		}
		if before := len(begins) - n; before > 0 && (k.Kind == Personal || k.Kind == NationalID) &&
			impersonal[string(text[begins[before-1]:start])] {
			return Key{}, false
		}
		return k, true
	}
	return Key{}, false
}

// splitASCII is split without allocations: the parts one after the other, and
// where each begins. nil: the name is not ASCII, or has very many parts.
func splitASCII(name, text []byte, begins []int) ([]byte, []int) {
	fresh := true
	for i, c := range name {
		k := class[c]
		if k&isHigh != 0 {
			return nil, nil
		}
		if k&isAlnum == 0 {
			fresh = true
			continue
		}
		if k&isUpper != 0 {
			if i > 0 && (class[name[i-1]]&isLower != 0 || class[name[i-1]]&isUpper != 0 && i+1 < len(name) &&
				class[name[i+1]]&isLower != 0) {
				fresh = true
			}
			c |= 0x20
		}
		if fresh {
			if len(begins) == cap(begins) {
				return nil, nil
			}
			begins, fresh = append(begins, len(text)), false
		}
		text = append(text, c)
	}
	return text, begins
}

func splitAny(name []byte) (text []byte, begins []int) {
	for _, p := range split(string(name)) {
		begins = append(begins, len(text))
		text = append(text, p...)
	}
	return text, begins
}

const maxKey = 64

// split takes a name apart where its case changes or a join stands, and makes
// it lower-case.
func split(name string) []string {
	var parts []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, b.String())
			b.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) &&
			unicode.IsLower(runes[i+1])):
			flush()
		}
		b.WriteRune(unicode.ToLower(r))
	}
	flush()
	return parts
}
