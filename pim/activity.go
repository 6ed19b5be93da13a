package pim

// Activity is what attention has a rank do, refresh apart, for its energy. It counts fractions where it is a mean.
type Activity struct {
	Activates float64 // of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units, which do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open
	Clocks    float64 // clocks of the rank
}

// Plus returns a and b, n times.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// activity returns the amounts as an Activity.
func (a amounts) activity() Activity {
	return Activity{
		Activates: float64(a[activates]), UnitReads: float64(a[unitReads]), Reads: float64(a[reads]), Writes: float64(a[writes]),
		Open: float64(a[opened]), Clocks: float64(a[clocks]),
	}
}

// Activity returns what the head of Alone has a rank do. It is exact for every length, keys that are scored twice included.
func (t *KernelTable) Activity(context int) Activity {
	if context < 1 {
		return Activity{}
	}
	return t.attends(context).plus(t.appended[t.newest(context)], 1).activity()
}

// Activity returns what scoring that many bounds has the rank do.
func (t *BoundTable) Activity(bounds int) Activity {
	if bounds < 1 {
		return Activity{}
	}
	return t.scores.all((bounds - 1) / t.step).activity()
}
