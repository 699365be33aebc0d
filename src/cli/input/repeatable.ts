import type { Option } from 'commander'

/** Makes an option repeatable. The option's value is the list of all given values. */
export const repeatable = (option: Option): Option =>
  option.default([]).argParser((value: string, all: string[]) => [...all, value])
