/** The build puts a style sheet into the module, as text. */
declare module "*.css" {
  const text: string;
  export default text;
}
