package pim

import (
	"math"

	"github.com/l3sim/l3sim/attention"
)

// Scales convert an 8-bit or 4-bit element, in two's complement, to a number: Scale·(element − Zero). Both are FP16. An FP8 (E4M3) element
// means Scale times its number.
type Scales struct{ Scale, Zero float32 }

func narrowRange(bits int) (least, largest float32) {
	half := float32(int(1) << (bits - 1))
	return -half, half - 1
}

// FitScales returns scales for numbers from low to high: the smallest element means low, and the largest means high, or more if FP16 cannot
// distinguish numbers one step apart.
func FitScales(low, high float32, bits int) Scales {
	least, largest := narrowRange(bits)
	s := attention.RoundHalf(max((high-low)/(largest-least), high*0x1p-11, -low*0x1p-11))
	if s == 0 { // almost 0
		s = 1
	}
	return Scales{s, attention.RoundHalf(least - low/s)}
}

// FitTensor returns scales without a zero for numbers whose absolute value is at most most.
func FitTensor(most float32, bits int) Scales {
	_, largest := narrowRange(bits)
	if s := attention.RoundHalf(most / largest); s > 0 {
		return Scales{Scale: s}
	}
	return Scales{Scale: 1}
}

// Encode returns the element of the given bits whose number is nearest to x.
func (s Scales) Encode(x float32, bits int) uint16 {
	least, largest := narrowRange(bits)
	v := float32(math.RoundToEven(float64(x/s.Scale + s.Zero)))
	return uint16(int16(min(max(v, least), largest)))
}

// Decode returns the number that an element means.
func (s Scales) Decode(element uint16) float32 { return s.Scale * (float32(int16(element)) - s.Zero) }

// FitFP8 returns the scale of an FP8 tensor for numbers whose absolute value is at most most.
func FitFP8(most float32) Scales {
	if s := attention.RoundHalf(most / attention.E4M3Max); s > 0 {
		return Scales{Scale: s}
	}
	return Scales{Scale: 1}
}

// EncodeFP8 returns the FP8 element whose number is nearest to x.
func (s Scales) EncodeFP8(x float32) uint16 { return uint16(attention.Float32ToE4M3(x / s.Scale)) }

// DecodeFP8 returns the number that an FP8 element means.
func (s Scales) DecodeFP8(element uint16) float32 {
	return s.Scale * attention.E4M3Table()[uint8(element)]
}

// Word returns scale and zero as stored.
func (s Scales) Word() uint32 {
	return uint32(attention.Float32ToHalf(s.Scale)) | uint32(attention.Float32ToHalf(s.Zero))<<16
}

// ScalesOf decodes a stored word.
func ScalesOf(word uint32) Scales {
	half := attention.HalfTable()
	return Scales{half[uint16(word)], half[word>>16]}
}
