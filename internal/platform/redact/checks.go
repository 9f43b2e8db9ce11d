package redact

// identify says what a number of 9 to 19 digits is, by its length and check
// digits. Several may fit: which it is matters less than that it goes.
func identify(num *number) (Kind, string) {
	d := num.digits[:num.n]
	person := func(what string) (Kind, string) { return NationalID, what }
	switch {
	case num.n == 15 && (d[0] == 1 || d[0] == 2) && nir(d):
		return person("a French NIR")
	case num.n >= 13 && luhn(d):
		return Card, "a card number"
	case num.n == 13 && d[0] == 7 && d[1] == 5 && d[2] == 6 && ean(d):
		return person("a Swiss AHV number")
	case num.n == 12 && d[0] >= 2 && verhoeff(d):
		return person("an Indian Aadhaar")
	case num.n == 11 && cpf(d):
		return person("a Brazilian CPF")
	case num.n == 11 && weighted(d, []int{1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1})%10 == 0:
		return person("a Polish PESEL")
	case num.n == 11 && steuerID(d):
		return person("a German Steuer-ID")
	case num.n == 11 && belgian(d):
		return person("a Belgian national number")
	case num.n == 10 && nhs(d):
		return person("a UK NHS number")
	case (num.n == 10 || num.n == 12) && luhn(d[num.n-10:]) && day(d[num.n-6:]):
		return person("a Swedish personnummer")
	case num.n == 9 && num.ngroups == 3 && num.groups[0] == 3 && num.groups[1] == 2 && area(d):
		return person("a US social security number")
	case num.n == 9 && weighted(d, []int{9, 8, 7, 6, 5, 4, 3, 2, -1})%11 == 0:
		return person("a Dutch BSN")
	case num.n == 9 && area(d):
		return person("a US social security number")
	}
	return Number, "a number of nine digits or more"
}

func luhn(d []byte) bool {
	sum := 0
	for i := range d {
		v := int(d[len(d)-1-i])
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

func weighted(d []byte, weights []int) int {
	sum := 0
	for i, w := range weights {
		sum += int(d[i]) * w
	}
	return sum
}

func nir(d []byte) bool { return 97-value(d[:13])%97 == value(d[13:]) }

func ean(d []byte) bool {
	return weighted(d, []int{1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1})%10 == 0
}

func nhs(d []byte) bool {
	check := 11 - weighted(d, []int{10, 9, 8, 7, 6, 5, 4, 3, 2})%11
	return check%11 == int(d[9]) && check != 10
}

func cpf(d []byte) bool {
	a := weighted(d, []int{10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	b := weighted(d, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2}) * 10 % 11 % 10
	return a == int(d[9]) && b == int(d[10])
}

func steuerID(d []byte) bool {
	if d[0] == 0 {
		return false
	}
	product := 10
	for _, v := range d[:10] {
		sum := (int(v) + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	return (11-product)%10 == int(d[10])
}

func belgian(d []byte) bool {
	n, check := value(d[:9]), value(d[9:])
	return 97-n%97 == check || 97-(2_000_000_000+n)%97 == check
}

// area says whether the first digits may be those of a US social security number.
func area(d []byte) bool {
	a := value(d[:3])
	return a != 0 && a != 666 && a < 900 && value(d[3:5]) != 0 && value(d[5:9]) != 0
}

// day looks at the day of a personnummer, four digits before its end; 61 to 91
// are a coordination number's.
func day(last6 []byte) bool {
	n := value(last6[:2])
	return n >= 1 && n <= 31 || n >= 61 && n <= 91
}

// verhoeff is the check of an Aadhaar: a walk in the dihedral group of order 10.
func verhoeff(d []byte) bool {
	step := [10]int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}
	c := 0
	for i := range d {
		v := int(d[len(d)-1-i])
		for range i % 8 {
			v = step[v]
		}
		c = dihedral(c, v)
	}
	return c == 0
}

func dihedral(a, b int) int {
	switch {
	case a < 5 && b < 5:
		return (a + b) % 5
	case a < 5:
		return (a+b-5)%5 + 5
	case b < 5:
		return (a-5-b+5)%5 + 5
	}
	return ((a - 5) - (b - 5) + 5) % 5
}

// iban checks letters and digits without spaces.
func iban(b []byte) bool {
	rest := 0
	for i := range b {
		c := b[(i+4)%len(b)]
		switch {
		case class[c]&isDigit != 0:
			rest = (rest*10 + int(c-'0')) % 97
		case class[c]&isUpper != 0:
			rest = (rest*100 + int(c-'A') + 10) % 97
		default:
			return false
		}
	}
	return rest == 1
}

// codiceFiscale checks 16 upper-case letters and digits; where a digit is due, a
// letter may stand for it.
func codiceFiscale(b []byte) bool {
	const form, omocodia = "LLLLLLDDLDDLDDDL", "LMNPQRSTUV"
	odd := [...]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	sum := 0
	for i, c := range b[:16] {
		digit := class[c]&isDigit != 0
		if !digit && class[c]&isUpper == 0 || form[i] == 'L' && digit || form[i] == 'D' && !digit &&
			indexOf(omocodia, c) < 0 {
			return false
		}
		if i == 15 {
			return int(c-'A') == sum%26
		}
		v := int(c - 'A')
		if digit {
			v = int(c - '0')
		}
		if i%2 == 0 {
			v = odd[v]
		}
		sum += v
	}
	return false
}

func indexOf(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}
