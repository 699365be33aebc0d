/** A vector of length 1. The dot product of two unit vectors is the cosine of the angle between them. */
export type UnitVector = Float32Array
